"""Planned starts of pod groups beside the windows of Reservations."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given as given_by
from hypothesis import strategies as st

from quorate.gang.pending_reasons import AwaitsPlannedStart, AwaitsUnplannedStart, NotPlanned
from tests.gang.enqueue_worlds import Json, group_states, message, pod
from tests.gang.test_planned_groups import (
    Job,
    Run,
    a_world,
    assert_planned_starts_are_kept,
    gang,
    jobs,
    members,
)
from tests.gang.test_reserved_nodes import CLOSES, NOW, a_reservation
from tests.gang.world import World, key_of
from tests.search import examples

BOUND = "kueue.x-k8s.io/max-exec-time-seconds"
MAINTENANCE = {"purpose": "Maintenance"}


def bounded(name: str, count: int, created: int, seconds: int) -> tuple[Json, Json]:
    """Return a gang of members that take a node each for at most so many seconds, and its pods."""
    labels = {BOUND: str(seconds)}
    return gang(name, count, 4, created), members(name, count, 4, seconds, labels=labels)


def beside_a_window(*given: tuple[Json, Json], **spec: Any) -> World:
    """Return a world in which node n1 is reserved from second 100 to second 200."""
    groups, pods = [group for group, _ in given], [pods for _, pods in given]
    here = a_world(groups, pods, now=NOW)
    here.reservations.append(a_reservation(**(spec or MAINTENANCE)))
    return here


def planned_at(here: World, name: str) -> float | None:
    reason = here.session().pending_reasons[key_of(name)]
    assert isinstance(reason, AwaitsPlannedStart), reason
    return reason.at


def test_a_group_that_a_window_keeps_out_starts_when_the_window_ends() -> None:
    here = beside_a_window(
        bounded("large", 2, 0, 101), bounded("later", 1, 2, 200), bounded("last", 1, 1, 201)
    )
    assert planned_at(here, "large") == CLOSES
    assert "its start is planned for 2026-01-01 00:03:20 UTC at the latest" in message(here, "large")
    assert "reserved for night" in message(here, "large")
    assert (here.placed("later"), here.placed("last")) == (1, 0), "the first ends when the window ends"
    assert group_states(here)["last"] == "ReservedForEarlierPodGroup"
    here.do("advance", 200)
    here.do("finish", {"pods": ["later-0"]})
    here.session()
    assert here.placed("large") == 2


def test_a_planned_start_does_not_run_into_a_window() -> None:
    """The first group ends at 50, and what starts then on both nodes runs until 110."""
    first = gang("first", 1, 4, 0, phase="Running")
    running = pod("first", cpu="4", node="n0", phase="Running", deadline=50, started=int(NOW))
    here = beside_a_window((first, running), bounded("large", 2, 1, 60))
    assert planned_at(here, "large") == CLOSES
    here = beside_a_window((first, running), bounded("large", 2, 1, 50))
    assert planned_at(here, "large") == NOW + 50


def test_the_owners_of_a_window_use_its_nodes_before_a_planned_start() -> None:
    """``own`` has no bound, and may move the planned start, of which the group does not own the window."""
    large, pods = bounded("large", 2, 0, 101)
    own = gang("own", 1, 4, 1, namespace="owner"), members("own", 1, 4, namespace="owner")
    here = beside_a_window((large, pods), own, owners={"namespaces": ["owner"]})
    here.session()
    assert here.binds == {"owner/own-0": "n1"}


@pytest.mark.parametrize(("recurrence", "is_planned"), [("FREQ=DAILY", False), ("", True)])
def test_a_group_without_a_bound_has_no_start_before_a_window_that_recurs(
    recurrence: str, is_planned: bool
) -> None:
    unbounded = gang("large", 2, 4, 0), members("large", 2, 4)
    here = beside_a_window(unbounded, recurrence=recurrence, **MAINTENANCE)
    reason = here.session().pending_reasons[key_of("large")]
    if is_planned:
        assert isinstance(reason, AwaitsPlannedStart)
    else:
        assert isinstance(reason, AwaitsUnplannedStart)
        assert reason.why is NotPlanned.WINDOWS


class Window(NamedTuple):
    opens_s: int
    nodes: tuple[str, ...]


windows = st.lists(
    st.builds(
        Window,
        st.integers(0, 120),
        st.sets(st.sampled_from(["n0", "n1", "n2", "n3"]), min_size=1).map(
            lambda names: tuple(sorted(names))
        ),
    ),
    min_size=1,
    max_size=2,
)


@examples(60)
@given_by(jobs=st.lists(jobs, min_size=3, max_size=12), nodes=st.integers(1, 4), windows=windows)
def test_no_later_group_moves_a_planned_start_beside_windows(
    jobs: list[Job], nodes: int, windows: list[Window]
) -> None:
    run = Run(jobs, nodes, NOW)
    for number, window in enumerate(windows):
        nodes_of = {"names": list(window.nodes)}
        reservation = a_reservation(f"w{number}", NOW + window.opens_s, nodes=nodes_of, **MAINTENANCE)
        run.world.reservations.append(reservation)
    assert_planned_starts_are_kept(run)
