"""Plugin drf, beyond the shared vectors: job order by dominant share, and victims."""

import pytest

from tests.gang.plugin_session import Json, PluginSession

GPU = "nvidia.com/gpu"
NODE = {"name": "n1", "cpu": 10, "memory": "100Gi", "scalars": {GPU: 4}}


def running(group: str, count: int, **more: object) -> Json:
    return {"name": group, "group": group, "count": count, "node": "n1", "phase": "Running", **more}


def world(*pods: Json, **more: object) -> Json:
    groups = [{"name": name, "minMember": 0, "created": index} for index, name in enumerate("abc")]
    return {"nodes": [NODE], "podGroups": groups, "pods": list(pods), **more}


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [running("a", 1, cpu=1), running("b", 2, cpu=1)], "cab", id="the smaller share comes first"
        ),
        pytest.param(
            [running("a", 3, cpu=1), running("b", 1, scalars={GPU: 1})], "cba", id="of any resource"
        ),
        pytest.param(
            [running("a", 1, cpu=4), running("b", 1, scalars={GPU: 2}), running("c", 1, memory="45Gi")],
            "acb",
            id="each gang by its dominant resource",
        ),
        pytest.param(
            [running("a", 1, scalars={"example.com/tpu": 8}, node="gone")],
            "bca",
            id="a resource that no node has is ignored",
        ),
        pytest.param([running("a", 5, cpu=1, phase="Succeeded")], "abc", id="finished tasks are ignored"),
        pytest.param([running("a", 5, cpu=1, deleting=True)], "abc", id="releasing tasks are ignored"),
        pytest.param([{"name": "a", "group": "a", "cpu": 9}], "abc", id="pending tasks are ignored"),
    ],
)
def test_job_order(pods: list[Json], want: str) -> None:
    assert PluginSession(world(*pods), ["drf"]).gang_order() == list(want)


def test_places_for_pods_count_as_a_resource() -> None:
    pods = [running("a", 1, cpu="100m"), running("b", 55)]
    assert PluginSession(world(*pods), ["drf"]).gang_order() == ["c", "a", "b"]


def test_job_order_follows_pipelined_and_evicted_tasks() -> None:
    opened = PluginSession(world(running("a", 2, cpu=1), {"name": "b", "group": "b", "cpu": 3}), ["drf"])
    opened.pipeline("b", "n1")
    assert opened.gang_order() == ["c", "a", "b"]
    opened.evict("a-0")
    opened.evict("a-1")
    assert opened.gang_order() == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("claimant", "candidates", "victims"),
    [
        pytest.param(
            running("b", 1, cpu=1),
            ["a-5", "a-4", "a-3"],
            ["a-5", "a-4", "a-3"],
            id="victims of a gang with a much larger share",
        ),
        pytest.param(
            running("b", 3, cpu=1),
            ["a-5", "a-4", "a-3"],
            ["a-5", "a-4"],
            id="down to the share that the preemptor reaches",
        ),
        pytest.param(
            running("b", 5, cpu=1), ["a-5", "a-4"], [], id="no victims if the gangs would only change places"
        ),
        pytest.param(
            running("b", 3, cpu=1),
            ["a-5", "c-0", "a-4"],
            ["a-5", "a-4"],
            id="each gang by its own share",
        ),
    ],
)
def test_victims(claimant: Json, candidates: list[str], victims: list[str]) -> None:
    pods = [running("a", 6, cpu=1), claimant, running("c", 1, cpu=1), {"name": "new", "group": "b", "cpu": 1}]
    opened = PluginSession(world(*pods, nodes=[{"name": "n1", "cpu": 12}]), ["drf"])
    assert opened.preemptable("new", candidates) == victims


def test_a_candidate_that_is_not_chosen_does_not_reduce_the_share_of_its_gang() -> None:
    pods = [running("a", 1, cpu=5), {**running("s", 1, cpu=1), "group": "a"}]
    pods += [running("b", 3, cpu=1), {"name": "new", "group": "b", "cpu": 1}]
    assert PluginSession(world(*pods), ["drf"]).preemptable("new", ["a-0", "s-0"]) == ["s-0"]


def test_shares_within_the_tolerance_are_equal() -> None:
    node = {"name": "n1", "cpu": 2000}
    pods = [running("a", 2, cpu=1), running("b", 0), {"name": "new", "group": "b", "cpu": "1001m"}]
    opened = PluginSession(world(*pods, nodes=[node]), ["drf"])
    assert opened.preemptable("new", ["a-1"]) == ["a-1"]
    assert opened.preemptable("new", ["a-1", "a-0"]) == ["a-1"]
