"""The workload that is composed of the pods of a group, or why none is."""

import msgspec
import pytest

from quorate.controllers.pods import constants
from quorate.kube.writes import Create
from tests.controllers.pods.notation import a_pod, pods, show, with_spec
from tests.controllers.pods.test_pod_group_kind import decide


def test_pod_sets_are_in_the_order_of_what_their_pods_need() -> None:
    def orders(roles: tuple[str, str]) -> list[str]:
        small, large = (
            with_spec(
                a_pod(name, role=role),
                msgspec.Raw(
                    b'{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],"containers":'
                    b'[{"name":"c","resources":{"requests":{"cpu":"%d"}}}]}' % cpu
                ),
            )
            for name, role, cpu in (("a", roles[0], 1), ("b", roles[1], 4))
        )
        (create,) = decide([small, large], None).writes
        assert isinstance(create, Create)
        return [(b'"1"' in bytes(each.template) and "small") or "large" for each in create.body.spec.pod_sets]

    assert orders(("x", "y")) == orders(("y", "x"))


def test_pods_that_disagree_have_no_workload() -> None:
    two_queues = [a_pod("a"), a_pod("b", queue="other")]
    plan = decide(two_queues, None)
    assert [each.event.message for each in plan.events] == [
        "pods 'a' and 'b' has different queue names: queue!=other"
    ]
    two_totals = [a_pod("a"), a_pod("b", total="3")]
    plan = decide(two_totals, None)
    assert plan.events[0].event.message.endswith(
        "has different 'kueue.x-k8s.io/pod-group-total-count' values: 2!=3"
    )
    two_teams = [a_pod("a", labels={"team": "x"}), a_pod("b", labels={"team": "y"})]
    plan = decide(two_teams, None, label_keys_to_copy=("team",))
    assert plan.events[0].event.message == "pods have different values of label team: x, y"


def test_the_workload_of_a_group_has_the_copied_annotations() -> None:
    agreeing = [a_pod("a", annotations={"cost": "high"}), a_pod("b", annotations={"cost": "high", "x": "y"})]
    (create,) = decide(agreeing, None, annotation_keys_to_copy=("cost",)).writes
    assert isinstance(create, Create)
    assert create.body.metadata.annotations == {"cost": "high", constants.IS_GROUP: "true"}
    two_costs = [a_pod("a", annotations={"cost": "high"}), a_pod("b", annotations={"cost": "low"})]
    plan = decide(two_costs, None, annotation_keys_to_copy=("cost",))
    assert plan.events[0].event.message == "pods have different values of annotation cost: high, low"


def test_a_group_with_too_many_roles_has_no_workload() -> None:
    members = [a_pod(f"p{number}", role=f"r{number}", total="19") for number in range(19)]
    assert show(decide(members, None)) == "!ErrWorkloadCompose"


@pytest.mark.parametrize("total", ["", "0", "-1", "two", "²"])
def test_a_group_needs_a_valid_total_count(total: str) -> None:
    assert show(decide(pods("a=gated", total=total), None)) == "!ErrWorkloadCompose"
