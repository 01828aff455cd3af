"""The webhooks of Volcano's kinds: a cache that lags or is missing causes no refusal."""

import asyncio
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.core import Namespace
from quorate.api.meta import Key
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.validation.pod_templates import pod_template_findings
from quorate.api.volcano import PodGroup, Queue
from quorate.webhooks.admission_review import AdmissionResponse
from quorate.webhooks.limits import MAX_COUNTED
from quorate.webhooks.volcano.volcano_webhooks import VolcanoWebhooks
from tests.webhooks.admission_requests import a_request, patched, refusals

Json = dict[str, Any]


def a_queue(name: str, state: str = "Open", **spec: Any) -> Queue:
    return codec.convert(Queue, {"metadata": {"name": name}, "spec": spec, "status": {"state": state}})


@dataclass
class FakeReader:
    """A reader with a cache that may lack stored queues."""

    cached: Mapping[str, Queue] | None = None
    stored: Mapping[str, Queue] = field(default_factory=dict)
    phases: Mapping[str, str] = field(default_factory=dict)  # of the pod groups of namespace team
    lists: int = 0
    delays: bool = True  # whether the scheduler admits groups

    def queues(self) -> Mapping[str, Queue] | None:
        return self.cached

    async def list_queues(self) -> Mapping[str, Queue]:
        self.lists += 1
        return self.stored

    def pod_group(self, key: Key) -> PodGroup | None:
        if key.namespace != "team" or key.name not in self.phases:
            return None
        status = {"phase": self.phases[key.name]}
        return codec.convert(PodGroup, {"metadata": {"name": key.name}, "status": status})

    def pod_groups(self, namespace: str) -> list[PodGroup]:
        return []

    def pod_groups_in_queue(self, queue: str) -> list[PodGroup]:
        return []

    def quota(self, namespace: str) -> None:
        return None

    async def namespace(self, name: str) -> Namespace | None:
        return None

    def delays_pod_creation(self) -> bool:
        return self.delays


def respond(
    path: str,
    reader: FakeReader,
    new: Json | None,
    old: Json | None = None,
    rules: Any = None,
    **request: Any,
) -> AdmissionResponse:
    async def send() -> AdmissionResponse:
        webhook = VolcanoWebhooks(reader, rules or PodGroupWebhooks(), ("volcano",))
        return await webhook.handlers()[path](a_request(new, old, **request))

    return asyncio.run(send())


def a_group(**spec: Any) -> Json:
    return {"kind": "PodGroup", "metadata": {"name": "a", "namespace": "team"}, "spec": spec}


def test_a_queue_missing_in_the_cache_is_read_from_the_api_server() -> None:
    reader = FakeReader({}, {"new": a_queue("new")})
    assert refusals(respond("/podgroups/validate", reader, a_group(queue="new"))) == []
    assert reader.lists == 1


def test_without_findings_the_api_server_is_not_read() -> None:
    reader = FakeReader({"q": a_queue("q")})
    assert refusals(respond("/podgroups/validate", reader, a_group(queue="q"))) == []
    assert reader.lists == 0


def test_without_a_cache_the_api_server_is_read() -> None:
    reader = FakeReader(None, {"q": a_queue("q", "Closed")})
    (refusal,) = refusals(respond("/podgroups/validate", reader, a_group(queue="q")))
    assert refusal.startswith("spec.queue: 'q' is a queue in state Closed")


@pytest.mark.parametrize("path", ["/podgroups/min-resources", "/pods/min-resources"])
def test_without_cached_quotas_nothing_is_refused(path: str) -> None:
    huge = a_group(minResources={"cpu": "1000000"})
    assert refusals(respond(path, FakeReader(), huge)) == []


MUTATING = ["/podgroups/mutate", "/queues/mutate", "/jobs/mutate", "/pods/mutate"]
JUDGING = ["/podgroups/min-resources", "/pods/min-resources"]


@pytest.mark.parametrize("path", [*MUTATING, *JUDGING])
@pytest.mark.parametrize(
    "spec", [3, {"minResources": 3}, {"tasks": 3}, {"tasks": [None]}, {"containers": {}}]
)
def test_malformed_objects_are_left_to_their_schema(path: str, spec: Any) -> None:
    document = {"metadata": {"name": "a", "namespace": "team"}, "spec": spec}
    response = respond(path, FakeReader(), document)
    assert refusals(response) == []
    if spec == 3 or (path == "/jobs/mutate" and "tasks" in spec):
        assert patched(document, response) == document


@pytest.mark.parametrize("path", ["/podgroups/validate", "/queues/validate", "/jobs/validate"])
def test_an_undecodable_value_is_refused_with_a_message(path: str) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"queue": 3, "weight": "heavy"}}
    (refusal,) = refusals(respond(path, FakeReader({}), document))
    assert "cannot be read" in refusal


@pytest.mark.parametrize(
    "path", [*MUTATING, *JUDGING, "/podgroups/validate", "/queues/validate", "/jobs/validate"]
)
@pytest.mark.parametrize(
    "old", ["", 3, [], {}, {"spec": 3}, {"spec": {"tasks": 3}}, {"spec": {"tasks": [None]}}]
)
def test_an_old_object_of_any_structure_gets_a_response(path: str, old: Any) -> None:
    task = {"name": "a", "replicas": 1, "template": {"spec": {"containers": []}}}
    new = {"metadata": {"name": "a", "namespace": "team"}, "spec": {"minAvailable": 1, "tasks": [task]}}
    response = respond(path, FakeReader({}), new, operation="UPDATE", oldObject=old)
    assert isinstance(response, AdmissionResponse)


def test_an_undecodable_stored_queue_can_be_corrected_and_deleted() -> None:
    stored = {"metadata": {"name": "q"}, "spec": {"weight": "heavy"}}
    corrected = {"metadata": {"name": "q"}, "spec": {"weight": 1}}
    assert refusals(respond("/queues/validate", FakeReader({}), corrected, stored)) == []
    assert refusals(respond("/queues/validate", FakeReader({}), None, stored, operation="DELETE")) == []


@pytest.mark.parametrize("path", ["/podgroups/validate", "/jobs/validate", "/pods/min-resources"])
def test_deletions_of_other_kinds_are_allowed(path: str) -> None:
    deleted = {"metadata": {"name": "a"}, "spec": {"queue": 3}}
    assert respond(path, FakeReader(), None, deleted, operation="DELETE") == AdmissionResponse()


def test_a_queue_with_children_cannot_be_deleted() -> None:
    tree = {"org": a_queue("org"), "team": a_queue("team", parent="org")}
    deleted = {"metadata": {"name": "org"}}
    assert (
        refusals(respond("/queues/validate", FakeReader(tree, tree), None, deleted, operation="DELETE")) != []
    )
    assert (
        refusals(respond("/queues/validate", FakeReader(tree, {}), None, deleted, operation="DELETE")) == []
    )


def test_the_maximum_depth_is_configurable() -> None:
    tree = {"a": a_queue("a"), "b": a_queue("b", parent="a")}
    new = {"metadata": {"name": "c"}, "spec": {"parent": "b"}}
    assert refusals(respond("/queues/validate", FakeReader(tree, tree), new)) == []
    shallow = PodGroupWebhooks(max_queue_depth=2)
    assert refusals(respond("/queues/validate", FakeReader(tree, tree), new, rules=shallow)) != []


def test_a_policy_without_effect_gets_a_warning() -> None:
    policy = {"event": "PodPending", "action": "RestartPod"}
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    tasks = [{"replicas": 1, "template": template}]
    job = {"metadata": {"name": "j"}, "spec": {"tasks": tasks, "policies": [policy]}}
    response = respond("/jobs/validate", FakeReader({"default": a_queue("default")}), job)
    assert (refusals(response), len(response.warnings)) == ([], 1)


def test_volcanos_unused_pod_webhook_allows_everything() -> None:
    for path in ("/pods/mutate", "/pods/validate"):
        assert respond(path, FakeReader(), a_pod()) == AdmissionResponse()


GROUP = "scheduling.k8s.io/group-name"
VOLCANO_GATE = "scheduling.volcano.sh/queue-allocation-gate"
OUR_GATE = "scheduling.quorate.dev/pod-group"
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}


def a_pod(annotations: Mapping[str, str] | None = None, owners: tuple[Json, ...] = (), **spec: Any) -> Json:
    metadata: Json = {"name": "a-0", "namespace": "team", "ownerReferences": list(owners)}
    metadata["annotations"] = {GROUP: "waits"} if annotations is None else dict(annotations)
    container = {"name": "main", "image": "busybox"}
    return {"metadata": metadata, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), [OUR_GATE], id="pending group"),
        pytest.param(a_pod({GROUP: "new"}), [OUR_GATE], id="new group"),
        pytest.param(a_pod({GROUP: "missing"}), [OUR_GATE], id="missing group"),
        pytest.param(a_pod({GROUP: "admitted"}), [], id="admitted group"),
        pytest.param(a_pod({}), [], id="no group"),
        pytest.param(a_pod({VOLCANO_GATE: "true"}), [VOLCANO_GATE], id="group will be created for it"),
        pytest.param(a_pod(schedulerName="default-scheduler"), [], id="another scheduler"),
        pytest.param(a_pod(owners=(DAEMON,)), [], id="DaemonSet pod"),
        pytest.param(a_pod(nodeName="n1"), [], id="pod with a node"),
        pytest.param(a_pod(schedulingGates=[{"name": "other"}]), ["other", OUR_GATE], id="another gate"),
        pytest.param(a_pod(schedulingGates=[{"name": OUR_GATE}]), [OUR_GATE], id="gate present"),
    ],
)
def test_pods_of_pending_groups_are_gated(pod: Json, want: list[str]) -> None:
    rules = PodGroupWebhooks(gate_pods_of_pending_groups=True)
    reader = FakeReader(phases={"waits": "Pending", "new": "", "admitted": "Inqueue"})
    gates = patched(pod, respond("/pods/mutate", reader, pod, rules=rules))["spec"].get("schedulingGates")
    assert [gate["name"] for gate in gates or []] == want
    assert respond("/pods/mutate", reader, pod) == AdmissionResponse(), "no gates unless configured"


@pytest.mark.parametrize(
    ("delays", "refused", "gates"),
    [(True, ["PodGroupPending"], 1), (False, [], 0)],
    ids=["enqueue", "no enqueue"],
)
def test_pods_of_pending_groups_wait_only_for_a_scheduler_that_admits_groups(
    delays: bool, refused: list[str], gates: int
) -> None:
    rules = PodGroupWebhooks(reject_pods_of_pending_groups=True, gate_pods_of_pending_groups=True)
    reader = FakeReader(phases={"a": "Pending"}, delays=delays)
    pod = {
        "metadata": {"name": "a-0", "namespace": "team", "annotations": {GROUP_NAME: "a"}},
        "spec": {"schedulerName": "volcano"},
    }
    response = respond("/pods/min-resources", reader, pod, rules=rules)
    assert [finding.reason for finding in response.findings] == refused
    gated = patched(pod, respond("/pods/mutate", reader, pod, rules=rules))
    assert len(gated["spec"].get("schedulingGates", [])) == gates


def test_unknown_fields_of_a_job_are_kept() -> None:
    template = {
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": False}}]}
    }
    job = {
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"replicas": 1, "template": template}], "other": [1]},
    }
    done = patched(job, respond("/jobs/mutate", FakeReader(), job))
    assert done["spec"]["tasks"] == [
        {"replicas": 1, "template": template, "name": "default0", "minAvailable": 1}
    ]
    assert done["spec"]["other"] == [1]


@pytest.mark.parametrize("plugins", [{}, {"pytorch": []}], ids=["no plugins", "a plugin that needs others"])
def test_a_job_can_be_replaced_by_its_manifest_without_defaults(plugins: Json) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"tasks": [{"replicas": 1, "template": template}], "plugins": plugins}
    manifest = {"metadata": {"name": "j"}, "spec": spec}
    stored = patched(manifest, respond("/jobs/mutate", FakeReader(), manifest))
    assert stored != manifest
    for old, new in ((stored, manifest), (manifest, stored)):
        assert refusals(respond("/jobs/validate", FakeReader(), new, old, operation="UPDATE")) == []
    other = {**manifest, "spec": {**spec, "queue": "other"}}
    (refusal,) = refusals(respond("/jobs/validate", FakeReader(), other, stored, operation="UPDATE"))
    assert refusal.startswith("spec.queue: 'other' cannot change (it was 'default'")


def test_a_large_job_is_validated_beside_the_event_loop() -> None:
    containers = [{"name": f"c{number}", "image": "i"} for number in range(4000)]
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": containers}}}
    refused = [{"name": "Wrong", "image": " "}] * 4000
    wrong = {"name": "v", "replicas": 1, "template": {"spec": {"containers": refused}}}
    threads: set[threading.Thread] = set()

    def observe(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is pod_template_findings.__code__:
            threads.add(threading.current_thread())

    def found(*tasks: Json) -> int:
        job = {"kind": "Job", "metadata": {"name": "j", "namespace": "team"}, "spec": {"tasks": [*tasks]}}
        return len(respond("/jobs/validate", FakeReader({"default": a_queue("default")}), job).findings)

    threading.setprofile(observe)
    sys.setprofile(observe)
    try:
        assert found({**task, "template": {"spec": {"containers": containers[:1]}}}) == 0
        assert threads == {threading.main_thread()}
        threads.clear()
        assert found(task) == 0
        assert found(wrong) == MAX_COUNTED
        assert threading.main_thread() not in threads
        assert threads
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
