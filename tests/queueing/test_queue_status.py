"""The status of queues: usage, counts, and why a queue is inactive."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.kueue import AdmissionCheck, AdmissionChecksStrategy
from quorate.api.meta import Key, at_epoch, find_condition
from quorate.queueing.explanation.queues import explain_local_queue
from tests.queueing.world import World


def a_world(queue: dict[str, Any] | None = None, local: dict[str, Any] | None = None, **given: Any) -> World:
    return World(
        {
            "flavors": ["spot"],
            "localQueues": {"lq": {"clusterQueue": "cq", **(local or {})}},
            "clusterQueues": {
                "cq": {"cohort": "c", "quota": [{"spot": {"cpu": 2}}], **(queue or {})},
                "other": {"cohort": "c", "quota": [{"spot": {"cpu": 4}}]},
            },
            "workloads": [
                {"name": "run", "queue": "lq", "requests": {"cpu": 3}},
                {"name": "wait", "queue": "lq", "created": 1, "requests": {"cpu": "3500m"}},
            ],
            **given,
        }
    )


def test_counts_and_usage_are_those_of_the_workloads() -> None:
    world = a_world()
    world.run({"cycle": 2})
    status = world.state.cluster_queue_status("cq", world.now)
    (flavor,) = status.flavors_usage
    (cpu,) = flavor.resources
    assert (flavor.name, cpu.name, str(cpu.total), str(cpu.borrowed)) == ("spot", "cpu", "3", "1")
    assert status.flavors_reservation == status.flavors_usage
    counts = (status.pending_workloads, status.reserving_workloads, status.admitted_workloads)
    assert counts == (1, 1, 1)
    local = world.state.local_queue_status(Key("default", "lq"), world.now)
    assert (local.pending_workloads, local.reserving_workloads, local.admitted_workloads) == (1, 1, 1)
    assert str(local.flavors_usage[0].resources[0].total) == "3"

    world.run({"finish": ["run"]})
    status = world.state.cluster_queue_status("cq", world.now)
    assert (status.reserving_workloads, status.admitted_workloads) == (0, 0)
    assert str(status.flavors_usage[0].resources[0].total) == "0"


def test_workloads_wait_in_a_local_queue_of_which_the_cluster_queue_does_not_exist() -> None:
    world = a_world(local={"clusterQueue": "gone"})
    assert world.state.local_queue_status(Key("default", "lq"), world.now).pending_workloads == 2


def test_a_local_queue_that_is_being_deleted_admits_nothing() -> None:
    world = a_world()
    key = Key("default", "lq")
    local_queue = world.state.ledger.local_queues[key].object
    assert local_queue is not None
    metadata = replace(local_queue.metadata, deletion_timestamp=at_epoch(world.now))
    world.state.put_local_queue(replace(local_queue, metadata=metadata))
    world.run({"cycle": 2})
    assert world.state.cluster_queue_status("cq", world.now).reserving_workloads == 0
    active = find_condition(world.state.local_queue_status(key, world.now).conditions, "Active")
    assert active is not None
    assert (active.status, active.reason) == ("False", "Terminating")
    explanation = explain_local_queue(world.state, key)
    assert explanation is not None
    assert explanation.enough == ("create it again after it is gone",)


def test_zeros_are_written() -> None:
    """Kueue writes them, and dashboards read them."""
    world = a_world(workloads=[])
    unused = {"name": "spot", "resources": [{"name": "cpu", "total": "0"}]}
    unused_queue = {"name": "spot", "resources": [{"name": "cpu", "total": "0", "borrowed": "0"}]}
    counts = {"pendingWorkloads": 0, "reservingWorkloads": 0, "admittedWorkloads": 0}
    status = codec.to_builtins(world.state.cluster_queue_status("cq", world.now))
    local = codec.to_builtins(world.state.local_queue_status(Key("default", "lq"), world.now))
    assert status.items() >= {**counts, "flavorsUsage": [unused_queue]}.items()
    assert local.items() >= {**counts, "flavorsUsage": [unused]}.items()


@pytest.mark.parametrize(
    ("queue", "given", "reason", "message"),
    [
        pytest.param({}, {}, "Ready", "Can admit new workloads", id="active"),
        pytest.param(
            {"stopPolicy": "Hold"}, {}, "Stopped", "Can't admit new workloads: is stopped.", id="stopped"
        ),
        pytest.param(
            {},
            {"flavors": []},
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): spot.",
            id="a flavor is missing",
        ),
        pytest.param(
            {"quota": [{"spot": {"cpu": 2}}, {"dear": {"cpu": 2}}, {"best": {"cpu": 2}}]},
            {},
            "FlavorNotFound",
            "Can't admit new workloads: references missing ResourceFlavor(s): dear,best.",
            id="missing flavors in the order of the spec",
        ),
        pytest.param(
            {"weight": "-1"},
            {"flavors": []},
            "Misconfigured",
            "Can't admit new workloads: is misconfigured: spec.fairSharing.weight: '-1' is negative, "
            "must be at least 0, references missing ResourceFlavor(s): spot.",
            id="stored although invalid",
        ),
        pytest.param(
            {"namespaceSelector": {"a b": "c d", "e f": "g h"}},
            {},
            "Misconfigured",
            "Can't admit new workloads: is misconfigured: spec.namespaceSelector.matchLabels[a b]: 'a b' is "
            "not the key of a label (write name or example.com/name); "
            "spec.namespaceSelector.matchLabels[a b]: 'c d' is not the value of a label (at most 63 letters, "
            "digits, '-', '_' or '.'); spec.namespaceSelector.matchLabels[e f]: 'e f' is not the key of a "
            "label (write name or example.com/name); and 1 more.",
            id="the first three findings",
        ),
        pytest.param(
            {},
            {"flavors": {"spot": {"topologyName": "racks", "nodeLabels": {"pool": "a"}}}},
            "TopologyNotFound",
            'Can\'t admit new workloads: there is no Topology "racks" for TAS flavor "spot".',
            id="a topology is missing",
        ),
        pytest.param(
            {},
            {
                "flavors": {"spot": {"topologyName": "racks", "nodeLabels": {"pool": "a"}}},
                "topologies": {"racks": {"levels": ["rack"]}},
            },
            "Ready",
            "Can admit new workloads",
            id="with its topology",
        ),
        pytest.param(
            {},
            {
                "flavors": {"spot": {"topologyName": "racks", "nodeLabels": {"pool": "a"}}},
                "config": {"featureGates": {"TopologyAwareScheduling": False}},
            },
            "Ready",
            "Can admit new workloads",
            id="no topology is needed",
        ),
        pytest.param(
            {"stopPolicy": "HoldAndDrain"},
            {"flavors": []},
            "Stopped",
            "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): spot.",
            id="the first of several gives the reason",
        ),
    ],
)
def test_the_active_condition_of_a_cluster_queue(
    queue: dict[str, Any], given: dict[str, Any], reason: str, message: str
) -> None:
    world = a_world(queue, **given)
    active = find_condition(world.state.cluster_queue_status("cq", world.now).conditions, "Active")
    assert active is not None
    assert (active.status == "True") == (reason == "Ready")
    assert (active.reason, active.message) == (reason, message)
    local = find_condition(
        world.state.local_queue_status(Key("default", "lq"), world.now).conditions, "Active"
    )
    assert local is not None
    assert local.reason == ("Ready" if reason == "Ready" else "ClusterQueueIsInactive")


@pytest.mark.parametrize(
    ("local", "reason"),
    [({"stopPolicy": "Hold"}, "Stopped"), ({"clusterQueue": "gone"}, "ClusterQueueDoesNotExist")],
)
def test_the_active_condition_of_a_local_queue(local: dict[str, Any], reason: str) -> None:
    world = a_world(local=local)
    status = world.state.local_queue_status(Key("default", "lq"), world.now)
    active = find_condition(status.conditions, "Active")
    assert active is not None
    assert (active.status, active.reason) == ("False", reason)
    assert status.flavors_usage == () or reason == "Stopped"


@pytest.mark.parametrize(
    ("flavors", "shown"),
    [
        pytest.param(["spot", "spot"], ["spot"], id="a flavor that is specified twice"),
        pytest.param(
            [f"f{at:03}" for at in range(80)], [f"f{at:03}" for at in range(64)], id="more than fit"
        ),
    ],
)
def test_a_status_has_no_more_flavors_than_the_api_accepts(flavors: list[str], shown: list[str]) -> None:
    world = a_world(
        {"quota": [{flavor: {f"r{at}": 1}} for at, flavor in enumerate(flavors)]}, flavors=flavors
    )
    status = world.state.cluster_queue_status("cq", world.now)
    assert [usage.name for usage in status.flavors_usage] == shown
    local = world.state.local_queue_status(Key("default", "lq"), world.now)
    assert [usage.name for usage in local.flavors_reservation] == shown


def test_the_status_contains_the_share_with_fair_sharing() -> None:
    world = a_world(config={"fairSharing": {}})
    world.run("cycle")
    status = world.state.cluster_queue_status("cq", world.now)
    assert status.fair_sharing is not None
    assert status.fair_sharing.weighted_share == 167  # 1 of 6 cpus borrowed, rounded up
    assert a_world().state.cluster_queue_status("cq", 0.0).fair_sharing is None


MULTIKUEUE, PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


def add_checks(world: World, controllers: dict[str, str], on_flavors: Sequence[str] = ()) -> None:
    """Add active admission checks, given their controllers, to cluster queue cq."""
    active = [{"type": "Active", "status": "True"}]
    for name, controller in controllers.items():
        spec = {"controllerName": controller}
        body = {"metadata": {"name": name}, "spec": spec, "status": {"conditions": active}}
        world.state.put_admission_check(codec.convert(AdmissionCheck, body))
    queue = world.state.ledger.cluster_queues["cq"].object
    rules = [{"name": name, "onFlavors": on_flavors} for name in controllers]
    strategy = codec.convert(AdmissionChecksStrategy, {"admissionChecks": rules})
    spec_with_checks = replace(queue.spec, admission_checks_strategy=strategy)
    world.state.put_cluster_queue(replace(queue, spec=spec_with_checks))


@pytest.mark.parametrize(("controller", "reserving"), [(MULTIKUEUE, 1), (PROVISIONING, 0)])
def test_a_queue_that_dispatches_needs_no_topology_of_its_own(controller: str, reserving: int) -> None:
    """The worker clusters place the pods; here the workload gets the flavor without a topology."""
    racks = {"topologyName": "racks", "nodeLabels": {"pool": "a"}}
    world = a_world(
        {"quota": [{"spot": {"cpu": 4}}, {"dear": {"cpu": 4}}]}, flavors={"spot": racks, "dear": {}}
    )
    add_checks(world, {"check": controller})
    world.run({"cycle": 1})
    assert world.state.cluster_queue_status("cq", world.now).reserving_workloads == reserving


@pytest.mark.parametrize(
    ("controllers", "on_flavors", "reason", "message"),
    [
        pytest.param(
            {"b": MULTIKUEUE, "a": MULTIKUEUE},
            [],
            "MultipleMultiKueueAdmissionChecks",
            "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: a,b",
            id="two MultiKueue checks",
        ),
        pytest.param(
            {"a": MULTIKUEUE},
            ["spot"],
            "MultiKueueAdmissionCheckAppliedPerFlavor",
            "Cannot specify MultiKueue AdmissionCheck per flavor, found: a",
            id="a MultiKueue check for one of two flavors",
        ),
        pytest.param({"a": MULTIKUEUE}, ["spot", "dear"], "Ready", "", id="for both flavors"),
        pytest.param(
            {"a": MULTIKUEUE, "p": PROVISIONING},
            [],
            "MultiKueueWithProvisioningRequest",
            "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: a, p",
            id="with a ProvisioningRequest check",
        ),
        pytest.param({"p": PROVISIONING, "q": PROVISIONING}, [], "Ready", "", id="no MultiKueue check"),
    ],
)
def test_conflicts_of_admission_checks(
    controllers: dict[str, str], on_flavors: list[str], reason: str, message: str
) -> None:
    world = a_world({"quota": [{"spot": {"cpu": 2}}, {"dear": {"cpu": 2}}]}, flavors=["spot", "dear"])
    add_checks(world, controllers, on_flavors)
    condition = find_condition(world.state.cluster_queue_status("cq", world.now).conditions, "Active")
    assert condition is not None
    want = f"Can't admit new workloads: {message}." if message else "Can admit new workloads"
    assert (condition.reason, condition.message) == (reason, want)


def test_queues_below_a_cycle_of_cohorts_are_inactive_until_it_is_resolved() -> None:
    cohorts = {"x": {"parent": "y"}, "y": {"parent": "z"}, "z": {}}
    world = a_world({"cohort": "x"}, cohorts=cohorts)

    def active() -> list[tuple[str, str, str]]:
        statuses = (
            world.state.cluster_queue_status("cq", world.now),
            world.state.local_queue_status(Key("default", "lq"), world.now),
            world.state.cluster_queue_status("other", world.now),
        )
        found = [find_condition(status.conditions, "Active") for status in statuses]
        return [(each.status, each.reason, each.message) for each in found if each is not None]

    ready = ("True", "Ready", "Can admit new workloads")
    at_first = active()
    assert at_first == [ready, ("True", "Ready", "Can submit new workloads to localQueue"), ready]
    detail = "the parents of its cohorts form a cycle: x, y, z"
    refusing = [
        ("False", "CohortCycleDetected", f"Can't admit new workloads: {detail}."),
        ("False", "CohortCycleDetected", f"Can't submit new workloads to clusterQueue: {detail}"),
        ready,
    ]
    world.run({"update": {"cohorts": {"z": {"parent": "x"}}}})
    assert active() == refusing
    world.run({"update": {"cohorts": {"w": {"parent": "x"}}}})
    world.run({"update": {"clusterQueues": {"other": {"cohort": "w"}}}})
    assert active() == [*refusing[:2], refusing[0]]
    world.run({"update": {"cohorts": {"y": {"parent": ""}}}})
    assert active() == at_first


def test_a_queue_without_cohort_borrows_nothing_after_its_quota_was_lowered() -> None:
    world = a_world(
        {"cohort": "", "quota": [{"spot": {"cpu": 3}}]},
        workloads=[{"name": "run", "queue": "lq", "requests": {"cpu": 3}}],
    )
    world.run("cycle")
    world.run({"update": {"clusterQueues": {"cq": {"quota": [{"spot": {"cpu": 1}}]}}}})
    (usage,) = world.state.cluster_queue_status("cq", world.now).flavors_usage
    assert [(str(each.total), str(each.borrowed)) for each in usage.resources] == [("3", "0")]
