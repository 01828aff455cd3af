"""One object in detail over HTTP, with what the user may read live, and the history."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key, at_epoch
from quorate.dashboard.model.model import run_model
from quorate.dashboard.queries import ADMINISTRATOR
from quorate.dashboard.views import node_views, overview
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import EVENTS, NATIVE_POD_GROUPS, POD_GROUPS, WORKLOADS, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from tests.dashboard.served import WITHIN_S, Served, served

pytestmark = pytest.mark.slow

CLUSTER_ROLES = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDINGS = untyped(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False
)
PREEMPTED = "Preempted to accommodate a workload (UID: {uid}, JobUID: UNKNOWN) due to prioritization"


def with_dashboard(tmp_path: Path, story: Callable[[Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served(tmp_path, history=tmp_path / "history.db") as found:
            await story(found)

    asyncio.run(run())


def now() -> str:
    return at_epoch(WallClock().now()).isoformat().replace("+00:00", "Z")


async def preempt(dashboard: Served, victim: Key, preemptor: Key) -> None:
    """Write the conditions of a workload that was preempted for another one."""
    uid = (await dashboard.administrator.get(WORKLOADS, preemptor)).metadata.uid
    message = f"{PREEMPTED.format(uid=uid)}; see {preemptor}"
    conditions = [
        {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now()}
        for type_, reason in (("Preempted", "InClusterQueue"), ("Evicted", "Preempted"))
    ]
    await dashboard.administrator.patch(
        WORKLOADS, victim, {"status": {"conditions": conditions}}, subresource="status"
    )


def test_a_tenant_reads_its_workload_with_its_own_rights(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        regarding = {
            "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "red-job", "namespace": "red",
        }  # fmt: skip
        event = {
            "metadata": {"name": "e", "namespace": "red"}, "eventTime": "2026-01-01T00:00:00.000000Z",
            "type": "Normal", "reason": "Seen", "note": "it was seen", "action": "See",
            "regarding": regarding, "reportingController": "test", "reportingInstance": "test",
        }  # fmt: skip
        await dashboard.administrator.create(EVENTS, event)
        red, administrator = await dashboard.logged_in("red"), await dashboard.logged_in()
        answer = await red.get("/workloads/red/red-job")
        assert answer.status == 200, answer.body
        found = answer.json
        assert (found["row"]["state"], found["row"]["clusterQueue"]) == ("Queued", "shared")
        assert [each["step"] for each in found["milestones"]] == ["Created", "Queued"]
        assert [(each["name"], each["pods"], each["requests"]) for each in found["podSets"]] == [
            ("main", 1, {"cpu": "1"})
        ]
        assert found["events"] == []  # the role of the tenant has no events
        assert found["explanationProblem"]  # no controllers serve explanations here
        assert found["explanation"]["state"] == "Queued"
        assert "quorate explain workload/red-job -n red" in found["commands"]
        for path in ("/workloads/blue/blue-job", "/workloads/blue/none", "/workloads/red/none"):
            assert (await red.get(path)).status == 404, path
        seen = (await administrator.get("/workloads/red/red-job")).json
        assert [(each["reason"], each["message"]) for each in seen["events"]] == [("Seen", "it was seen")]

    with_dashboard(tmp_path, story)


def test_a_dashboard_that_may_list_little_shows_the_rest(tmp_path: Path) -> None:
    """A kind that may not be listed does not keep the page from the others."""

    async def story(dashboard: Served) -> None:
        rules = [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]}]
        administrator = dashboard.administrator
        await administrator.create(CLUSTER_ROLES, {"metadata": {"name": "queues"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "queues"}
        subjects = [{"kind": "ServiceAccount", "name": "user", "namespace": "red"}]
        binding = {"metadata": {"name": "queues"}, "roleRef": role, "subjects": subjects}
        await administrator.create(CLUSTER_ROLE_BINDINGS, binding)
        config = RestConfig(administrator.config.server, credentials=Token(dashboard.tokens["red"]))
        clock = WallClock()
        async with (
            Client(config, random.Random(1)) as client,
            run_model(client, clock, default_configuration()) as model,
        ):
            async with asyncio.timeout(WITHIN_S):
                await model.ready.wait()
            found = overview.overview(model.data, ADMINISTRATOR, clock.now())
            assert (found.counts.pending, found.pod_groups) == (2, {})
            assert found.nodes is not None
            assert found.nodes.nodes == 0
            view = node_views.nodes(model.data, ADMINISTRATOR, "", None)
            assert view is not None
            assert view.root.domains == ()

    with_dashboard(tmp_path, story)


NATIVE_GANG = "/pod-groups/red/scheduling.k8s.io%2Fgang"


def test_a_tenant_reads_its_pod_group(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        group = {
            "metadata": {"name": "gang", "namespace": "red"},
            "spec": {"minMember": 3, "minResources": {"cpu": "3"}},
        }
        await dashboard.administrator.create(POD_GROUPS, group)
        red, blue = await dashboard.logged_in("red"), await dashboard.logged_in("blue")

        async def listed() -> bool:
            return bool((await red.get("/pod-groups")).json["total"] == 1)

        await dashboard.until(listed)
        found = (await red.get("/pod-groups/red/gang")).json
        assert (found["row"]["phase"], found["row"]["minMember"], found["minResources"]) == (
            "Pending", 3, {"cpu": "3"},
        )  # fmt: skip
        assert found["explanation"]["state"] == "Queued"
        assert (await blue.get("/pod-groups/red/gang")).status == 404
        assert (await red.get(NATIVE_GANG)).status == 404

        native: dict[str, object] = {"metadata": {"name": "gang", "namespace": "red"}}
        native["spec"] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await dashboard.administrator.create(NATIVE_POD_GROUPS, native)
        administrator = await dashboard.logged_in()

        async def shows_native() -> bool:
            return bool((await administrator.get(NATIVE_GANG)).status == 200)

        await dashboard.until(shows_native)
        found = (await administrator.get(NATIVE_GANG)).json
        assert (found["row"]["name"], found["row"]["minMember"]) == ("scheduling.k8s.io/gang", 2)
        assert "kubectl get podgroups.scheduling.k8s.io/gang -n red -o yaml" in found["commands"]
        assert (await blue.get("/pod-groups")).json["total"] == 0

    with_dashboard(tmp_path, story)


def test_history_and_preemptions_are_cut_to_what_a_tenant_may_see(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        red, blue, administrator = [await dashboard.logged_in(name) for name in ("red", "blue", "")]

        async def has_samples() -> bool:
            return bool((await administrator.get("/history/overview")).json["samples"])

        await dashboard.until(has_samples)
        series = (await red.get("/history/cluster-queues/shared?range=day")).json
        assert series["names"] == ["pending", "admitted", "default/cpu used", "default/cpu nominal"]
        assert series["samples"][-1]["values"] == [2.0, 0.0, 0.0, 4.0]  # a total, with the workload of blue
        assert (await red.get("/history/overview")).json["samples"][-1]["values"] == [2.0, 0.0, 0.0]
        assert (await red.get("/history/cluster-queues/hidden")).status == 404
        assert (await red.get("/history/overview?range=year")).status == 400

        await preempt(dashboard, Key("blue", "blue-job"), Key("red", "red-job"))

        def transitions(answer: Any) -> list[tuple[str, str, str]]:
            return [(each["step"], each["name"], each["preemptor"]) for each in answer["transitions"]]

        async def is_shown() -> bool:
            return len(transitions((await administrator.get("/cluster-queues/shared")).json)) == 2

        await dashboard.until(is_shown)
        assert sorted(transitions((await administrator.get("/cluster-queues/shared")).json)) == [
            ("Evicted", "blue-job", ""), ("Preempted", "blue-job", "red/red-job"),
        ]  # fmt: skip
        seen = await blue.get("/cluster-queues/shared")
        assert sorted(transitions(seen.json)) == [("Evicted", "blue-job", ""), ("Preempted", "blue-job", "")]
        assert b"red-job" not in seen.body
        assert transitions((await red.get("/cluster-queues/shared")).json) == []
        own = await blue.get("/workloads/blue/blue-job")
        assert {"Preempted", "Evicted"} <= {each["step"] for each in own.json["milestones"]}
        assert b"red/red-job" not in own.body

    with_dashboard(tmp_path, story)
    assert (tmp_path / "history.db").stat().st_mode & 0o077 == 0
