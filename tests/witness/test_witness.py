"""What the witness compares, and what it tells apart."""

import pytest

from quorate.witness.pods import WitnessedPod
from quorate.witness.report import Reason, Report
from quorate.witness.witness import Facts, Witness
from tests.witness.objects import (
    ADMITTED_S,
    GRACE_S,
    a_cohort,
    a_node,
    a_pod,
    a_queue,
    a_workload,
    facts,
    owner,
    pods,
    show,
    started,
)

LATER = ADMITTED_S + 10 * GRACE_S


def observe(*objects: object, **options: object) -> list[str]:
    return show(started().observe(facts(*objects, **options), 50.0))  # type: ignore[arg-type]


def two_queues(cpu_a: object, cpu_b: object, *cohorts: object, cohort: str = "c") -> tuple[object, ...]:
    """Return queues a and b of one cohort, each with an admitted job of its name."""
    queues = (a_queue("a", cpu_a, cohort), a_queue("b", cpu_b, cohort))
    return (*queues, *cohorts, a_workload("a", queue="a"), a_workload("b", queue="b"))


@pytest.mark.parametrize(
    ("limits", "used", "want"),
    [
        pytest.param((4, 4), (8, 0), [], id="a queue borrows all that its cohort has"),
        pytest.param((4, 4), (8, 1), ["Cohort c +1"], id="together not more than the cohort has"),
        pytest.param(([4, 2], 4), (6, 2), [], id="borrowing up to borrowingLimit"),
        pytest.param(([4, 2], 4), (7, 1), ["ClusterQueue a +1"], id="borrowing above borrowingLimit"),
        pytest.param((4, [4, None, 1]), (5, 3), [], id="lending up to lendingLimit, the rest kept"),
        pytest.param((4, [4, None, 1]), (6, 3), ["Cohort c +1"], id="more than is lent"),
        pytest.param((4, [4, None, 0]), (4, 4), [], id="nothing lent, and nothing borrowed"),
    ],
)
def test_limits_in_a_cohort(limits: tuple[object, object], used: tuple[int, int], want: list[str]) -> None:
    found = observe(*two_queues(*limits), *pods("a", used[0]), *pods("b", used[1]))
    assert found == [f"OverLimit {each.replace(' +', ' default/cpu +')}" for each in want]


@pytest.mark.parametrize(
    ("cohort", "used", "want"),
    [
        pytest.param(a_cohort("c", parent="root"), 10, [], id="a cohort borrows from its parent"),
        pytest.param(a_cohort("c", parent="root"), 11, ["Cohort root +1"], id="all that the root has"),
        pytest.param(a_cohort("c", [0, 1], "root"), 10, ["Cohort c +1"], id="a cohort's borrowingLimit"),
        pytest.param(a_cohort("c", [2, None, 0], "root"), 12, [], id="a cohort's own quota, not lent"),
    ],
)
def test_limits_in_a_tree(cohort: object, used: int, want: list[str]) -> None:
    """Queues a and b have 4 each in cohort c, below a root with 2."""
    tree = two_queues(4, 4, cohort, a_cohort("root", 2))
    found = observe(*tree, *pods("a", used))
    assert found == [f"OverLimit {each.replace(' +', ' default/cpu +')}" for each in want]


def test_queues_of_a_circle_of_cohorts_have_no_limits() -> None:
    circle = (a_cohort("c", parent="d"), a_cohort("d", parent="c"))
    assert observe(*two_queues(1, 1, *circle), *pods("a", 5)) == []


def test_a_flavor_that_the_queue_does_not_list() -> None:
    admitted = a_workload("a", queue="a", flavors={"cpu": "other"})
    found = observe(a_queue("a", 4, "c"), a_queue("b", 4, "c", other={"cpu": 9}), admitted, *pods("a", 1))
    assert found == ["OverLimit ClusterQueue a other/cpu +1"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod("p", "9", job="job", phase="Succeeded"), id="it has succeeded"),
        pytest.param(a_pod("p", "9", job="job", phase="Failed"), id="it has failed"),
        pytest.param(a_pod("p", "9", job="job", node=""), id="it has no node"),
        pytest.param(a_pod("p", "9", job="job", node="gone"), id="its node is gone"),
        pytest.param(a_pod("p", "9"), id="it belongs to nothing that is queued"),
    ],
)
def test_a_pod_that_does_not_count(pod: object) -> None:
    assert observe(a_queue(cpu=4), a_workload("job"), pod) == []


@pytest.mark.parametrize(
    ("ready", "want"),
    [
        pytest.param(True, ["OverLimit ClusterQueue q default/cpu +5"], id="until it has ended"),
        pytest.param(False, [], id="its node has failed"),
    ],
)
def test_a_pod_that_is_being_deleted(ready: bool, want: list[str]) -> None:
    pod = a_pod("p", "9", job="job", deletionTimestamp="2026-01-01T00:00:00Z")
    assert observe(a_queue(cpu=4), a_workload("job"), pod, a_node(ready=ready)) == want


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod("p", "5", job="w"), id="by its job"),
        pytest.param(a_pod("p", "5", annotations={"kueue.x-k8s.io/workload": "w"}), id="by annotation"),
        pytest.param(a_pod("p", "5", labels={"kueue.x-k8s.io/pod-group-name": "w"}), id="by its group"),
        pytest.param(a_pod("owned", "5"), id="as owner of the workload"),
        pytest.param(a_pod("p", "5", annotations={"scheduling.k8s.io/group-name": "g"}), id="of a PodGroup"),
    ],
)
def test_what_ties_a_pod_to_its_workload(pod: object) -> None:
    owners = [owner("Job", "w"), owner("Pod", "owned"), owner("PodGroup", "g")]
    assert observe(a_queue(cpu=4), a_workload("w", owners=owners), pod) == [
        "OverLimit ClusterQueue q default/cpu +1"
    ]


def test_owners_decide_before_names() -> None:
    """A pod's author can write any annotation."""
    pod = a_pod("p", "5", job="a", annotations={"kueue.x-k8s.io/workload": "b"})
    queues = (a_queue("a", 9), a_queue("b", 1))
    assert observe(*queues, a_workload("a", queue="a"), a_workload("b", queue="b"), pod) == []


def test_the_slice_with_quota_is_that_of_all_pods_of_an_elastic_job() -> None:
    old = a_workload("old", queue="a", job="job", finished=True)
    new = a_workload("new", queue="b", job="job", at=ADMITTED_S + 1)
    pod = a_pod("p", "5", job="job", annotations={"kueue.x-k8s.io/workload": "old"})
    assert observe(a_queue("a", 1), a_queue("b", 9), old, new, pod) == []


@pytest.mark.parametrize(
    ("running", "want"),
    [
        pytest.param(pods("job", 3), [], id="all that it was admitted with"),
        pytest.param(pods("job", 4), ["OutsideQuota Workload ns/job default/cpu +1"], id="another pod"),
        pytest.param(
            [*pods("job", 3), a_pod("old", job="job", deletionTimestamp="2026-01-01T00:00:00Z")],
            [],
            id="a pod that is being replaced",
        ),
        pytest.param(pods("job", 3, "2"), ["OutsideQuota Workload ns/job default/cpu +3"], id="larger pods"),
    ],
)
def test_the_pods_of_one_workload(running: list[WitnessedPod], want: list[str]) -> None:
    """The queue has room for more, but the workload was admitted with three cpus."""
    assert observe(a_queue(cpu=9), a_workload("job", usage={"cpu": "3"}), *running) == want


def test_a_resource_that_gets_quota_holds_what_runs_already() -> None:
    job = (a_workload("job", flavors={"gpu": "default"}), *pods("job", 4))
    before, after = facts(a_queue("q", default={"gpu": 1}), *job), facts(a_queue(cpu=2), *job)
    assert lowered(before, after) == [Reason.LIMIT_LOWERED]


@pytest.mark.parametrize(
    ("cpu", "count", "want"),
    [
        pytest.param("4", 4, [], id="all that the node has"),
        pytest.param("3", 4, ["OverAllocatable Node n /cpu +1"], id="more than it has"),
        pytest.param(
            "99", 111, ["OverAllocatable Node n /cpu +12", "OverAllocatable Node n /pods +1"], id="pods"
        ),
    ],
)
def test_a_node(cpu: str, count: int, want: list[str]) -> None:
    """All pods of the node count, also those of nothing that is queued."""
    assert observe(a_node(cpu), *pods("any", count)) == want


def reasons(report: Report) -> list[Reason]:
    return [each.reason for each in report.differences]


def lowered(before: Facts, after: Facts) -> list[Reason]:
    witness = started()
    assert witness.observe(before, ADMITTED_S + 1).differences == ()
    return reasons(witness.observe(after, LATER))


def test_a_lowered_quota_is_not_a_fault() -> None:
    job = (a_workload("job"), *pods("job", 4))
    assert lowered(facts(a_queue(cpu=4), *job), facts(a_queue(cpu=2), *job)) == [Reason.LIMIT_LOWERED]


def test_a_workload_that_is_admitted_after_the_quota_was_lowered_is_a_fault() -> None:
    job = (a_workload("job"), *pods("job", 4))
    late = (a_workload("late", at=LATER + 2 * GRACE_S), *pods("late", 1))
    witness = started()
    witness.observe(facts(a_queue(cpu=4), *job), ADMITTED_S + 1)
    witness.observe(facts(a_queue(cpu=2), *job), LATER)
    assert reasons(witness.observe(facts(a_queue(cpu=2), *job, *late), LATER + 3 * GRACE_S)) == [
        Reason.OVER_LIMIT
    ]


def test_a_quota_that_is_raised_excuses_nothing() -> None:
    job = (a_workload("job"), *pods("job", 4))
    assert lowered(facts(a_queue(cpu=4), *job), facts(a_queue(cpu=5), *job, *pods("more", 0))) == []
    more = (a_workload("more"), *pods("more", 2))
    assert lowered(facts(a_queue(cpu=4), *job), facts(a_queue(cpu=5), *job, *more)) == [Reason.OVER_LIMIT]


def test_a_queue_that_joins_a_cohort_brings_what_it_uses() -> None:
    jobs = (a_workload("a", queue="a"), a_workload("b", queue="b"), *pods("a", 8), *pods("b", 2))
    before = facts(a_queue("a", 8), a_queue("b", 2, "c"), *jobs)
    after = facts(a_queue("a", 6, "c"), a_queue("b", 2, "c"), *jobs)
    assert lowered(before, after) == [Reason.LIMIT_LOWERED]


def test_a_borrowing_limit_that_is_added_is_a_lowered_limit() -> None:
    jobs = (a_workload("a", queue="a"), *pods("a", 6))
    before = facts(a_queue("a", 4, "c"), a_queue("b", 4, "c"), *jobs)
    after = facts(a_queue("a", [4, 0], "c"), a_queue("b", 4, "c"), *jobs)
    assert lowered(before, after) == [Reason.LIMIT_LOWERED]


def test_a_queue_that_keeps_less_quota_leaves_its_cohort_less() -> None:
    """The quota that the cohort shares is the same; what ``a`` kept for itself counts in it now."""
    jobs = (a_workload("a", queue="a"), a_workload("b", queue="b"), *pods("a", 4), *pods("b", 6))
    before = facts(a_queue("a", [6, None, 2], "c"), a_queue("b", 4, "c"), *jobs)
    after = facts(a_queue("a", 2, "c"), a_queue("b", 4, "c"), *jobs)
    assert lowered(before, after) == [Reason.LIMIT_LOWERED]


def test_a_queue_that_leaves_a_cohort_with_quota_of_its_own_takes_its_use_along() -> None:
    jobs = (a_workload("b", queue="b"), a_workload("c", queue="c"), *pods("b", 4), *pods("c", 2))

    def with_b_in(cohort: str) -> Facts:
        cohorts = a_cohort("inner", [4, None, 0], "top"), a_cohort("top")
        return facts(*cohorts, a_queue("b", 0, cohort), a_queue("c", 2, "top"), *jobs)

    assert lowered(with_b_in("inner"), with_b_in("top")) == [Reason.LIMIT_LOWERED]


def test_a_flavor_that_is_removed_is_a_lowered_limit() -> None:
    jobs = (a_workload("job"), *pods("job", 4))
    assert lowered(facts(a_queue(cpu=4), *jobs), facts(a_queue("q", other={"cpu": 4}), *jobs)) == [
        Reason.LIMIT_LOWERED
    ]


def test_a_node_that_shrinks_is_a_lowered_limit() -> None:
    running = pods("any", 4, creationTimestamp="1970-01-01T00:01:00Z")
    assert lowered(facts(a_node("4"), *running), facts(a_node("2"), *running)) == [Reason.LIMIT_LOWERED]


def test_what_ran_before_the_witness_started_may_have_had_a_higher_limit() -> None:
    state = facts(a_queue(cpu=2), a_workload("job"), *pods("job", 4))
    witness = started(now=LATER)
    assert reasons(witness.observe(state, LATER + 1)) == [Reason.OVER_LIMIT]  # the queue is new, too
    assert reasons(Witness(GRACE_S).observe(state, LATER)) == [Reason.BEFORE_START]


def test_a_message_names_the_queue_the_amounts_and_pods() -> None:
    report = started().observe(facts(a_queue(cpu=2), a_workload("job"), *pods("job", 7)), 50.0)
    assert [each.message for each in report.differences] == [
        "running pods use 7 cpu of flavor default, 5 more than the limit of 2: "
        "ns/job-0, ns/job-1, ns/job-2, ns/job-3, ns/job-4 and 2 more"
    ]
