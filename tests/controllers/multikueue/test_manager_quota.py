"""The quota of a manager's cluster queue, from that of its worker clusters."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import AdmissionCheck, ClusterQueue, LocalQueue
from quorate.api.kueue.multikueue import MultiKueueConfig
from quorate.api.meta import Key
from quorate.controllers.multikueue.manager_quota import (
    QuotaPlan,
    WorkerQueues,
    decide,
    multikueue_check,
)

HERE = [Key("team-a", "queue"), Key("team-b", "queue")]


def group(flavors: str) -> dict[str, Any]:
    """Return a resource group from a text such as ``spot cpu=2 memory=4Gi, dear cpu=1``."""
    made: list[dict[str, Any]] = []
    covered: list[str] = []
    for text in flavors.split(", "):
        name, *quotas = text.split()
        pairs = [quota.split("=") for quota in quotas]
        resources = [{"name": what, "nominalQuota": much} for what, much in pairs]
        made.append({"name": name, "resources": resources})
        covered = covered or [what for what, _ in pairs]
    return {"coveredResources": covered, "flavors": made}


def a_queue(*groups: dict[str, Any], name: str = "research", checks: tuple[str, ...] = ()) -> ClusterQueue:
    rules = {"admissionChecks": [{"name": check} for check in checks]}
    spec = {"resourceGroups": groups, "admissionChecksStrategy": rules}
    return codec.convert(ClusterQueue, {"metadata": {"name": name, "generation": 4}, "spec": spec})


def a_config(management: str | None = "Automated") -> MultiKueueConfig:
    spec = {"clusters": ["a"], "quotaManagement": management}
    return codec.convert(MultiKueueConfig, {"metadata": {"name": "config"}, "spec": spec})


def a_worker(queues: dict[str, str], *cluster_queues: ClusterQueue) -> WorkerQueues:
    """``queues``: the cluster queue of each local queue, by namespace and name."""
    local = []
    for key, target in queues.items():
        namespace, name = key.split("/")
        body = {"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterQueue": target}}
        local.append(codec.convert(LocalQueue, body))
    return WorkerQueues(local, cluster_queues)


def shown(plan: QuotaPlan) -> str:
    """Return ``cpu=3 memory=1Gi`` for a new quota, ``unchanged``, or why there is none."""
    assert plan.condition is not None
    if plan.condition.status == "False":
        return f"{plan.condition.reason}: {plan.condition.message}"
    if plan.resource_groups is None:
        return "unchanged"
    (new,) = plan.resource_groups
    (flavor,) = new.flavors
    return " ".join(f"{resource.name}={resource.nominal_quota}" for resource in flavor.resources)


ONE = a_queue(group("any cpu=1 memory=1Gi"))
RUNS = {"team-a/queue": "batch"}


@pytest.mark.parametrize(
    ("queue", "workers", "want"),
    [
        pytest.param(
            ONE,
            [a_worker(RUNS, a_queue(group("spot cpu=2 memory=3Gi, dear cpu=1500m memory=1Gi"), name="batch")),
             a_worker(RUNS, a_queue(group("spot cpu=10"), name="batch"),
                      a_queue(group("x cpu=99"), name="other"))],
            "cpu=13500m memory=4Gi",
            id="the sum of all flavors and workers",
        ),
        pytest.param(
            ONE,
            [a_worker({"team-a/queue": "batch", "team-b/queue": "batch"},
                      a_queue(group("spot cpu=2"), name="batch"))],
            "cpu=2 memory=0",
            id="a cluster queue of two local queues counts once",
        ),
        pytest.param(ONE, [a_worker({"team-c/queue": "batch"}, a_queue(group("spot cpu=2"), name="batch"))],
                     "cpu=0 memory=0", id="local queues of other namespaces do not count"),
        pytest.param(ONE, [], "cpu=0 memory=0", id="no worker is connected"),
        pytest.param(ONE, [a_worker(RUNS, a_queue(group("a cpu=1 memory=1Gi"), name="batch"))], "unchanged",
                     id="the same quota"),
        pytest.param(
            ONE,
            [a_worker(RUNS, a_queue(group("a gpu=1 cpu=1"), group("b disk=1"), name="batch"))],
            "UnsupportedConfiguration: manager-side coveredResources is missing resources configured on "
            "workers: [disk gpu]",
            id="a resource that the manager does not cover",
        ),
        pytest.param(
            a_queue(group("any cpu=1, dear cpu=1")), [],
            "UnsupportedConfiguration: Quota automation requires that the manager-side ClusterQueue has "
            "exactly one ResourceFlavor",
            id="two flavors",
        ),
    ],
)  # fmt: skip
def test_quota(queue: ClusterQueue, workers: list[WorkerQueues], want: str) -> None:
    plan = decide(queue, a_config(), HERE, workers, 1_000.0)
    assert shown(plan) == want
    assert plan.condition is not None
    assert plan.condition.observed_generation == 4


@pytest.mark.parametrize(
    ("config", "want"),
    [
        (None, "UnsupportedConfiguration: The referenced MultiKueueConfig was not found."),
        (a_config(None), "NotRequested: MultiKueue manager quota automation has not been requested."),
        (a_config("Manual"), "NotRequested: MultiKueue manager quota automation has not been requested."),
    ],
)
def test_quota_is_changed_on_request_only(config: MultiKueueConfig | None, want: str) -> None:
    assert shown(decide(ONE, config, HERE, [], 1_000.0)) == want


def test_the_first_multikueue_check_counts() -> None:
    def check(name: str, controller: str) -> AdmissionCheck:
        return codec.convert(
            AdmissionCheck, {"metadata": {"name": name}, "spec": {"controllerName": controller}}
        )

    checks = {
        "a": check("a", "example.com/other"),
        "b": check("b", "kueue.x-k8s.io/multikueue"),
        "c": check("c", "kueue.x-k8s.io/multikueue"),
    }
    assert multikueue_check(a_queue(checks=("c", "b", "a", "missing")), checks) is checks["b"]
    assert multikueue_check(a_queue(checks=("a",)), checks) is None
