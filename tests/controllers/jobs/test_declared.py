"""Kinds declared by their paths: what objects say at them."""

from typing import Any

import pytest

from quorate.api.configuration_integrations import DeclaredFramework, PodSetPaths, Sign
from quorate.api.paths import Unfit
from quorate.controllers.jobs import Outcome
from quorate.controllers.jobs.declared import DeclaredKind
from tests.controllers.jobs.test_foreign import PODS, foreign_job

KIND = DeclaredKind(
    DeclaredFramework(
        group="example.com",
        version="v1",
        kind="Training",
        plural="trainings",
        suspend=("spec", "paused"),
        pod_sets=(
            PodSetPaths(
                name="main", template=("spec", "pods"), count=("spec", "size"), min_count=("spec", "least")
            ),
            PodSetPaths(each=("spec", "groups"), name_from=("name",), template=("pods",)),
        ),
        active=("status", "active"),
        ready=Sign(field=("status", "ready"), equals=True),
        succeeded=Sign(condition="Complete"),
        failed=Sign(field=("status", "errors"), equals=1),
    )
)


def test_pod_sets_are_where_the_paths_lead() -> None:
    groups = [{"name": "a", "pods": PODS}, {"name": "b", "pods": PODS}]
    sets = KIND.pod_sets(foreign_job({"pods": PODS, "size": 3, "least": 2, "groups": groups}))
    assert [(each.name, each.count) for each in sets] == [("main", 3), ("a", 1), ("b", 1)]
    assert sets[0].min_count == 2


def test_counts_that_an_object_leaves_out() -> None:
    (only,) = KIND.pod_sets(foreign_job({"pods": PODS}))
    assert (only.count, bool(only.min_count)) == (1, False)


def test_not_more_pods_than_there_are_can_be_enough() -> None:
    with pytest.raises(Unfit, match=r"spec\.least: is 3, more than the 2 pods there are"):
        KIND.pod_sets(foreign_job({"pods": PODS, "size": 2, "least": 3}))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param(
            {"conditions": [{"type": "Complete", "status": "True", "message": "well done"}]},
            Outcome(success=True, message="well done"),
            id="a condition says more",
        ),
        pytest.param({"conditions": [{"type": "Complete", "status": "False"}]}, None, id="a false condition"),
        pytest.param({"errors": 1}, Outcome(success=False, message=""), id="a field"),
        pytest.param({"errors": True}, None, id="true is not 1"),
    ],
)
def test_how_it_ended(status: Any, want: Outcome | None) -> None:
    assert KIND.finished(foreign_job({}, status)) == want


@pytest.mark.parametrize(
    ("active", "want"), [(None, False), (0, False), (2, True), (False, False), (True, True)]
)
def test_whether_pods_hold_capacity(active: Any, want: bool) -> None:
    assert KIND.is_active(foreign_job({}, {"active": active})) is want
