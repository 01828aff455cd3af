"""Submissions, logs of pods and manifests, as the user and by the rules of the API server."""

from pathlib import Path

import pytest
import yaml

from quorate.kube.resources import JOBS
from tests.dashboard.served import ROLE_BINDINGS, ROLES, Served
from tests.dashboard.test_login import with_dashboard

pytestmark = pytest.mark.slow

JOB = {"namespace": "red", "localQueue": "queue", "command": "python train.py", "name": "train"}
RIGHTS = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "jobs"},
    "rules": [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ],
}  # fmt: skip


async def _may_submit(dashboard: Served, tenant: str) -> None:
    await dashboard.administrator.create(ROLES, RIGHTS, tenant)
    subject = {"kind": "ServiceAccount", "name": "user", "namespace": tenant}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "jobs"}
    binding = {"metadata": {"name": "jobs"}, "subjects": [subject], "roleRef": reference}
    await dashboard.administrator.create(ROLE_BINDINGS, binding, tenant)


def test_a_job_is_tried_and_created_as_the_user(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        await _may_submit(dashboard, "red")
        red, all_ = await dashboard.logged_in("red"), await dashboard.logged_in()
        queues = (await red.get("/submission-queues")).json
        assert {queue["namespace"] for queue in queues} == {"red"}
        job = JOB | {"localQueue": queues[0]["name"]}

        tried = (await all_.post("/submissions", job | {"dryRun": True})).json
        assert tried["starts"] == "Now"
        (manifest,) = yaml.safe_load_all(tried["manifests"])
        assert (manifest["kind"], manifest["metadata"]["name"]) == ("Job", "train")
        never = (await all_.post("/submissions", job | {"dryRun": True, "cpus": "100"})).json
        assert never["starts"] == "Never"
        assert never["enough"]
        unknown = (await red.post("/submissions", job | {"dryRun": True})).json
        assert unknown["starts"] == "Unknown"
        assert "needs the permission to list workloads" in unknown["message"]
        assert not (await dashboard.administrator.list(JOBS, "red")).items

        created = await red.post("/submissions", job | {"dryRun": False})
        assert created.status == 200, created.body
        (stored,) = (await dashboard.administrator.list(JOBS, "red")).items
        assert stored.metadata.name == "train"
        again = await red.post("/submissions", job | {"dryRun": False})
        assert (again.status, "already exists" in again.json["message"]) == (400, True)

    with_dashboard(tmp_path, story)


def test_a_refused_submission_says_why(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        red, all_ = await dashboard.logged_in("red"), await dashboard.logged_in()
        assert (await red.get("/submission-queues")).json == []
        (queue, *_) = [
            queue for queue in (await all_.get("/submission-queues")).json if queue["namespace"] == "red"
        ]
        job = JOB | {"localQueue": queue["name"], "dryRun": False}
        assert (await red.post("/submissions", job)).status == 403
        for change, message in (
            ({"command": "echo 'open"}, "command: No closing quotation"),
            ({"command": ""}, "there is no command to run"),
            ({"cpus": "lots"}, "--cpus lots: is no quantity"),
            ({"timeLimit": "soon"}, "--time soon: is no duration"),
            ({"localQueue": "absent"}, "-q absent: no local queue of that name"),
            ({"namespace": ""}, "namespace: a job needs one"),
        ):
            refused = await all_.post("/submissions", job | change)
            assert (refused.status, message in refused.json["message"]) == (400, True), refused.body

    with_dashboard(tmp_path, story)


def test_manifests_and_logs_are_those_that_the_user_may_read(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        red, blue = await dashboard.logged_in("red"), await dashboard.logged_in("blue")
        (manifest,) = (await red.get("/workloads/red/red-job/manifests")).json
        assert manifest["kind"] == "Workload"
        assert yaml.safe_load(manifest["text"])["metadata"]["name"] == "red-job"
        assert (await blue.get("/workloads/red/red-job/manifests")).status == 403
        assert (await red.get("/pods/red/absent/log")).status == 403
        await _may_submit(dashboard, "red")

        async def may_read() -> bool:
            return (await red.get("/pods/red/absent/log")).status == 404

        await dashboard.until(may_read)

    with_dashboard(tmp_path, story)
