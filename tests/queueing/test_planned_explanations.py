"""What an explanation says of a planned start."""

import math

import pytest
from msgspec.structs import replace

from quorate.api.explanation import Explanation, summary_of
from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.cli.simulate.forecast import Start, _table
from quorate.cli.verbs.explain.command import explanation_sections
from quorate.cli.verbs.printing import Fields
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.planned import of_announcement
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.planning.announced_starts import AnnouncedStart, Revision
from tests.queueing.notation import Json
from tests.queueing.world import World

NOW = 13 * 3600.0
AT = 14 * 3600.0 + 300
ANNOUNCED = AnnouncedStart(at=AT, origin="Declared", ended=3, made_at=NOW, planned_at=AT)
NODE_LOST = Revision(AT - 900, "NodeLost", "node node-3 was lost")
DAYS = 5 * 86_400.0


@pytest.mark.parametrize(
    ("announced", "needs", "text"),
    [
        pytest.param(
            ANNOUNCED,
            ("8 of 8 cpu",),
            "planned start 14:05:00 UTC (declared), needs 8 of 8 cpu, 3 workloads before it end by then",
            id="as planned",
        ),
        pytest.param(
            replace(ANNOUNCED, ended=1, revisions=(NODE_LOST,)),
            (),
            "planned start 14:05:00 UTC (declared), 1 workload before it ends by then; was 13:50:00 UTC, "
            "moved because node node-3 was lost",
            id="moved",
        ),
        pytest.param(
            replace(ANNOUNCED, at=AT + DAYS, origin="Learned"),
            ("8 of 8 cpu", "4 of 4 nvidia.com/gpu"),
            "planned start 1970-01-06 14:05:00 UTC (learned), needs 8 of 8 cpu and 4 of 4 nvidia.com/gpu, "
            "3 workloads before it end by then",
            id="on another day",
        ),
        pytest.param(
            replace(ANNOUNCED, at=math.inf, revisions=(NODE_LOST,)),
            (),
            "planned start at a time that is not known, 3 workloads must end before it, some without a "
            "bound; was 13:50:00 UTC, moved because node node-3 was lost",
            id="not known",
        ),
        pytest.param(
            replace(ANNOUNCED, revisions=(replace(NODE_LOST, at=math.inf),)),
            (),
            "planned start 14:05:00 UTC (declared), 3 workloads before it end by then; was at a time that "
            "was not known, moved because node node-3 was lost",
            id="was not known",
        ),
    ],
)
def test_a_planned_start_is_explained_in_one_sentence(
    announced: AnnouncedStart, needs: tuple[str, ...], text: str
) -> None:
    assert of_announcement(announced, needs, NOW).text == text


def test_a_planned_start_that_was_moved_has_the_former_time_and_the_cause() -> None:
    explained = of_announcement(replace(ANNOUNCED, revisions=(NODE_LOST,)), ("8 of 8 cpu",), NOW)
    assert (explained.at, explained.was) == (at_epoch(AT), at_epoch(AT - 900))
    assert (explained.origin, explained.ends_before, explained.cause) == ("Declared", 3, "NodeLost")


FIRST = {"name": "first", "queue": "q", "requests": {"cpu": 4}, "maximumExecutionTimeSeconds": 100}
LARGE = {**FIRST, "name": "large", "requests": {"cpu": 8}, "created": 1}


def a_world(*jobs: Json) -> World:
    queue = {"quota": [{"default": {"cpu": 8}}], "annotations": {"backfill": "EASY"}}
    world = World({"flavors": ["default"], "clusterQueues": {"q": queue}, "workloads": jobs, "now": 10})
    world.run({"cycle": 12})
    return world


def explained(world: World, workload: Workload) -> Explanation:
    facts = run(pending_facts(world.state, workload.metadata.key))
    return explain_workload(world.state, workload, facts)


def test_the_explanation_of_a_planned_workload_has_its_time_and_amounts() -> None:
    world = a_world(
        FIRST, LARGE, {**FIRST, "name": "later", "created": 2, "maximumExecutionTimeSeconds": 200}
    )
    large = explained(world, world.workloads["large"])
    text = "planned start 00:01:50 UTC (declared), needs 8 of 8 cpu, 1 workload before it ends by then"
    assert large.planned_start is not None
    assert (large.planned_start.at, large.planned_start.text) == (at_epoch(110), text)
    assert summary_of(large, ObjectMeta()).planned_start == large.planned_start
    (facts, *_) = explanation_sections(large, world.now)
    assert isinstance(facts, Fields)
    assert ("Planned", text) in facts.rows
    assert explained(world, world.workloads["later"]).planned_start is None


def test_a_workload_that_is_only_tried_has_the_same_planned_start() -> None:
    """No condition of it is stored: the dry run of a submission plans it itself."""
    world = a_world(FIRST, LARGE)
    stored = replace(world.workloads["large"], status=WorkloadStatus())
    tried = explained(world, stored).planned_start
    assert tried == explained(world, world.workloads["large"]).planned_start


def test_a_forecast_has_a_column_of_planned_starts_only_if_there_are_any() -> None:
    start = Start("ns", "w", "q", None, None, 20, "low", "Queued", "QuotaShort")
    titles, rows = _table([start], at_epoch(NOW))
    assert "PLANNED" not in titles
    titles, rows = _table([start, replace(start, planned=at_epoch(AT))], at_epoch(NOW))
    assert [row[titles.index("PLANNED")] for row in rows] == ["", "in 1h5m at the latest"]
