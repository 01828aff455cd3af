"""Answers come from copies that may lag or be missing: then nobody is refused who need not be."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration.gang import PodGroupWebhooks
from quorate.api.core import Namespace
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup, Queue
from quorate.webhooks.admission_review import AdmissionResponse
from quorate.webhooks.volcano.volcano_webhooks import VolcanoWebhooks
from tests.webhooks.admission_requests import a_request, patched, refusals

Json = dict[str, Any]


def a_queue(name: str, state: str = "Open", **spec: Any) -> Queue:
    return codec.convert(Queue, {"metadata": {"name": name}, "spec": spec, "status": {"state": state}})


@dataclass
class Copies:
    """Copies of a cluster in which more queues are stored than copied."""

    copied: Mapping[str, Queue] | None = None
    stored: Mapping[str, Queue] = field(default_factory=dict)
    phases: Mapping[str, str] = field(default_factory=dict)  # of the pod groups of namespace team
    asked: int = 0

    def queues(self) -> Mapping[str, Queue] | None:
        return self.copied

    async def list_queues(self) -> Mapping[str, Queue]:
        self.asked += 1
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


def answered(
    path: str, copies: Copies, new: Json | None, old: Json | None = None, rules: Any = None, **request: Any
) -> AdmissionResponse:
    async def ask() -> AdmissionResponse:
        webhook = VolcanoWebhooks(copies, rules or PodGroupWebhooks(), ("volcano",))
        return await webhook.handlers()[path](a_request(new, old, **request))

    return asyncio.run(ask())


def a_group(**spec: Any) -> Json:
    return {"kind": "PodGroup", "metadata": {"name": "a", "namespace": "team"}, "spec": spec}


def test_a_queue_made_a_moment_ago_is_looked_up_before_it_is_called_missing() -> None:
    copies = Copies({}, {"new": a_queue("new")})
    assert refusals(answered("/podgroups/validate", copies, a_group(queue="new"))) == []
    assert copies.asked == 1


def test_nothing_is_looked_up_when_the_copy_has_no_objection() -> None:
    copies = Copies({"q": a_queue("q")})
    assert refusals(answered("/podgroups/validate", copies, a_group(queue="q"))) == []
    assert copies.asked == 0


def test_without_a_copy_what_is_stored_is_asked_for() -> None:
    copies = Copies(None, {"q": a_queue("q", "Closed")})
    (said,) = refusals(answered("/podgroups/validate", copies, a_group(queue="q")))
    assert said.startswith("spec.queue: 'q' is a queue in state Closed")


@pytest.mark.parametrize("path", ["/podgroups/min-resources", "/pods/min-resources"])
def test_while_quotas_are_not_known_nobody_is_refused(path: str) -> None:
    huge = a_group(minResources={"cpu": "1000000"})
    assert refusals(answered(path, Copies(), huge)) == []


MUTATING = ["/podgroups/mutate", "/queues/mutate", "/jobs/mutate", "/pods/mutate"]
JUDGING = ["/podgroups/min-resources", "/pods/min-resources"]


@pytest.mark.parametrize("path", [*MUTATING, *JUDGING])
@pytest.mark.parametrize(
    "spec", [3, {"minResources": 3}, {"tasks": 3}, {"tasks": [None]}, {"containers": {}}]
)
def test_what_means_nothing_is_left_to_those_who_say_so(path: str, spec: Any) -> None:
    document = {"metadata": {"name": "a", "namespace": "team"}, "spec": spec}
    answer = answered(path, Copies(), document)
    assert refusals(answer) == []
    if spec == 3 or (path == "/jobs/mutate" and "tasks" in spec):
        assert patched(document, answer) == document


@pytest.mark.parametrize("path", ["/podgroups/validate", "/queues/validate", "/jobs/validate"])
def test_what_cannot_be_read_is_refused_in_words(path: str) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"queue": 3, "weight": "heavy"}}
    (said,) = refusals(answered(path, Copies({}), document))
    assert "cannot be read" in said


def test_a_queue_that_means_nothing_can_be_mended_and_deleted() -> None:
    stored = {"metadata": {"name": "q"}, "spec": {"weight": "heavy"}}
    mended = {"metadata": {"name": "q"}, "spec": {"weight": 1}}
    assert refusals(answered("/queues/validate", Copies({}), mended, stored)) == []
    assert refusals(answered("/queues/validate", Copies({}), None, stored, operation="DELETE")) == []


@pytest.mark.parametrize("path", ["/podgroups/validate", "/jobs/validate", "/pods/min-resources"])
def test_what_goes_is_let_go(path: str) -> None:
    gone = {"metadata": {"name": "a"}, "spec": {"queue": 3}}
    assert answered(path, Copies(), None, gone, operation="DELETE") == AdmissionResponse()


def test_a_parent_is_kept_while_its_children_are_stored() -> None:
    tree = {"org": a_queue("org"), "team": a_queue("team", parent="org")}
    gone = {"metadata": {"name": "org"}}
    assert refusals(answered("/queues/validate", Copies(tree, tree), None, gone, operation="DELETE")) != []
    assert refusals(answered("/queues/validate", Copies(tree, {}), None, gone, operation="DELETE")) == []


def test_the_depth_of_the_tree_is_configured() -> None:
    tree = {"a": a_queue("a"), "b": a_queue("b", parent="a")}
    new = {"metadata": {"name": "c"}, "spec": {"parent": "b"}}
    assert refusals(answered("/queues/validate", Copies(tree, tree), new)) == []
    shallow = PodGroupWebhooks(max_queue_depth=2)
    assert refusals(answered("/queues/validate", Copies(tree, tree), new, rules=shallow)) != []


def test_a_job_is_warned_of_policies_that_never_act() -> None:
    policy = {"event": "PodPending", "action": "RestartPod"}
    job = {"metadata": {"name": "j"}, "spec": {"tasks": [{"replicas": 1}], "policies": [policy]}}
    answer = answered("/jobs/validate", Copies({"default": a_queue("default")}), job)
    assert (refusals(answer), len(answer.warnings)) == ([], 1)


def test_what_volcano_asks_about_pods_is_allowed() -> None:
    for path in ("/pods/mutate", "/pods/validate"):
        assert answered(path, Copies(), a_pod()) == AdmissionResponse()


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
        pytest.param(a_pod(), [OUR_GATE], id="its group waits"),
        pytest.param(a_pod({GROUP: "new"}), [OUR_GATE], id="its group has no phase yet"),
        pytest.param(a_pod({GROUP: "missing"}), [OUR_GATE], id="its group is not there"),
        pytest.param(a_pod({GROUP: "admitted"}), [], id="its group is admitted"),
        pytest.param(a_pod({}), [], id="it names no group"),
        pytest.param(a_pod({VOLCANO_GATE: "true"}), [VOLCANO_GATE], id="its group is made for it"),
        pytest.param(a_pod(schedulerName="default-scheduler"), [], id="others place it"),
        pytest.param(a_pod(owners=(DAEMON,)), [], id="a daemon"),
        pytest.param(a_pod(nodeName="n1"), [], id="the API allows no gate beside a node"),
        pytest.param(
            a_pod(schedulingGates=[{"name": "other"}]), ["other", OUR_GATE], id="others hold it back, too"
        ),
        pytest.param(a_pod(schedulingGates=[{"name": OUR_GATE}]), [OUR_GATE], id="its operator was first"),
    ],
)
def test_which_pods_are_gated(pod: Json, want: list[str]) -> None:
    rules = PodGroupWebhooks(gate_pods_of_pending_groups=True)
    copies = Copies(phases={"waits": "Pending", "new": "", "admitted": "Inqueue"})
    gates = patched(pod, answered("/pods/mutate", copies, pod, rules=rules))["spec"].get("schedulingGates")
    assert [gate["name"] for gate in gates or []] == want
    assert answered("/pods/mutate", copies, pod) == AdmissionResponse(), "nobody is, unless that is asked for"


def test_a_job_keeps_what_we_know_nothing_of() -> None:
    template = {
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": False}}]}
    }
    job = {
        "metadata": {"name": "j"},
        "spec": {"tasks": [{"replicas": 1, "template": template}], "other": [1]},
    }
    done = patched(job, answered("/jobs/mutate", Copies(), job))
    assert done["spec"]["tasks"] == [
        {"replicas": 1, "template": template, "name": "default0", "minAvailable": 1}
    ]
    assert done["spec"]["other"] == [1]
