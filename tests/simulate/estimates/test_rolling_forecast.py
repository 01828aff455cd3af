"""A forecast of a cluster that changes, refreshed with a bounded amount of work."""

import gc
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.explanation import StartAnswer, StartQuestion
from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch, epoch
from quorate.api.names.kueue import ADMISSION_GATE, ELASTIC_JOB, TOPOLOGY_GATE
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS
from quorate.queueing.state import State
from quorate.simulate.engine.player import play
from quorate.simulate.estimates.exchange import WaitingStart
from quorate.simulate.estimates.rolling_forecast import RollingForecast
from quorate.simulate.inputs.world import RESOURCES
from quorate.simulate.limits import PLAYS
from tests.simulate.inputs.test_existing import running, workload
from tests.simulate.worlds import queue, world_of

BEGAN = epoch(at_epoch(1_772_366_400.0))  # 2026-03-01T12:00:00Z
WAITS = "!QuotaReserved=11:58:00 Pending"


def a_forecast(
    *documents: str, step_s: float = 0.0, after_run: Callable[[], object] = lambda: None
) -> RollingForecast:
    """Return a forecast with these objects; each look at the processor time adds ``step_s``."""
    ticks = count()
    forecast = RollingForecast(lambda: next(ticks) * step_s, after_run)
    for (api_version, kind, _), obj in world_of(existing(), *documents).objects.items():
        forecast.put(RESOURCES[api_version, kind], with_uid(obj))
    return forecast


def with_uid(obj: Any) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid=obj.metadata.name))


def existing() -> str:
    return 'begins: "2026-03-01T12:00:00Z"\nexisting: [{name: known, runs: 30m}]\n'


def starts(found: tuple[WaitingStart, ...]) -> dict[str, tuple[float | None, int]]:
    return {each.name: (each.p50, each.runs) for each in found}


def test_an_estimate_is_a_moment_with_its_runs_and_the_origin_of_run_times() -> None:
    forecast = a_forecast(queue("q", 1), workload("b", "11:58:00", WAITS), workload("c", "11:59:00", WAITS))
    found = forecast.refresh(BEGAN, 1e9)
    b, c = found.starts
    assert (b.p50, b.p90) == (BEGAN, BEGAN)
    assert (c.p50, c.p90, c.runs) == (BEGAN + 3600, BEGAN + 3600, PLAYS)
    assert c.run_times == "default/q: workloads that have finished: none; 3600 s is assumed"


def test_a_run_is_over_when_its_memory_can_be_freed() -> None:
    """A collection after each run leaves no model of an earlier one."""
    models: list[int] = []

    def after_run() -> None:
        gc.collect()
        models.append(sum(isinstance(obj, State) for obj in gc.get_objects()))

    gc.freeze()  # objects of earlier tests are neither collected nor returned
    forecast = a_forecast(queue("q", 1), workload("b", "11:58:00", WAITS), after_run=after_run)
    forecast.refresh(BEGAN, 1e9)
    assert models == [0] * PLAYS


def test_a_budget_bounds_the_runs_of_a_refresh_and_later_ones_add_to_them() -> None:
    documents = queue("q", 1), workload("b", "11:58:00", WAITS), workload("c", "11:59:00", WAITS)
    run_s = a_forecast(*documents, step_s=1.0).refresh(BEGAN, 1e9).processor_s / PLAYS
    forecast = a_forecast(*documents, step_s=1.0)
    first = forecast.refresh(BEGAN, run_s * 1.5)
    assert first.runs == 1
    assert [(start.p90, start.confidence) for start in first.starts] == [(None, "low")] * 2
    assert first.processor_s > run_s
    forecast.refresh(BEGAN + 1, run_s * 1.5)
    third = forecast.refresh(BEGAN + 2, run_s * 1.5)
    assert starts(third.starts)["c"] == (BEGAN + 3601, 3)  # the second of three


def test_runs_are_repeated_within_a_quarter_of_the_budget() -> None:
    documents = queue("q", 1), workload("b", "11:58:00", WAITS)
    run_s = a_forecast(*documents, step_s=1.0).refresh(BEGAN, 1e9).processor_s / PLAYS
    assert a_forecast(*documents, step_s=1.0).refresh(BEGAN, run_s * 14).runs == 3


def test_a_run_ends_with_the_budget_and_what_has_started_by_then_counts() -> None:
    names = [f"w{number:02}" for number in range(50)]
    waiting = [workload(name, "11:58:00", WAITS) for name in names]
    budget_s = a_forecast(queue("q", 1), *waiting, step_s=1.0).refresh(BEGAN, 1e9).processor_s / PLAYS * 0.9
    forecast = a_forecast(queue("q", 1), *waiting, step_s=1.0)
    found = starts(forecast.refresh(BEGAN, budget_s).starts)
    assert found["w00"] == (BEGAN, 1)
    assert 1 < len(found) < len(names), "of the others nothing is known"


def test_nothing_is_played_while_nothing_changes_and_no_start_was_expected() -> None:
    documents = queue("q", 1), running("a", "11:50:00"), workload("b", "11:58:00", WAITS)
    forecast = a_forecast(*documents)
    first = forecast.refresh(BEGAN, 1e9)
    second = forecast.refresh(BEGAN + 10, 1e9)
    assert (first.runs, second.runs) == (PLAYS, 0)
    assert first.starts == second.starts
    (b,) = first.starts
    assert b.p50 is not None
    assert forecast.refresh(b.p50 + 1, 1e9).runs == PLAYS, "it did not start when it should"
    (a,) = world_of(existing(), documents[1]).of_kind(WORKLOADS)
    forecast.put(WORKLOADS, with_uid(a))
    assert forecast.refresh(b.p50 + 2, 1e9).runs == PLAYS


@pytest.mark.parametrize("gate", [ADMISSION_GATE, ELASTIC_JOB, TOPOLOGY_GATE])
def test_pods_have_no_gates_that_admission_removes(gate: str) -> None:
    node = "kind: Node\napiVersion: v1\nmetadata: {name: n}\nstatus: {allocatable: {cpu: 4, pods: 10}}"
    forecast = a_forecast(queue("q", 1), node)
    waiting = world_of(existing(), workload("b", "11:58:00", WAITS), workload("c", "11:59:00", WAITS))
    for each in map(with_uid, waiting.of_kind(WORKLOADS)):
        forecast.put(WORKLOADS, with_spec(each, {"schedulingGates": [{"name": gate}]}))
    assert starts(forecast.refresh(BEGAN, 1e9).starts)["c"] == (BEGAN + 3600, PLAYS)


def with_spec(obj: Any, fields: dict[str, Any]) -> Any:
    """Return a workload with ``fields`` in the spec of its pod template."""
    (pod_set,) = obj.spec.pod_sets
    template = msgspec.json.decode(pod_set.template)
    template["spec"] |= fields
    pod_sets = (msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode(template))),)
    return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, pod_sets=pod_sets))


def test_a_refresh_counts_the_processor_time_since_the_one_before() -> None:
    used_s = 1.0
    forecast = RollingForecast(lambda: used_s)
    used_s = 4.0  # spent on objects
    assert forecast.refresh(BEGAN, 1e9).processor_s == 3.0
    assert forecast.refresh(BEGAN, 1e9).processor_s == 0.0


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": "none"}, id="containers without their form"),
        pytest.param({"topologySpreadConstraints": [{"topologyKey": "zone"}] * 257}, id="many constraints"),
    ],
)
def test_a_workload_with_a_template_that_cannot_be_read_ends_no_estimate(spec: dict[str, Any]) -> None:
    forecast = a_forecast(queue("q", 1), "kind: Node\napiVersion: v1\nmetadata: {name: n}")
    (odd, good) = (
        with_uid(each)
        for each in world_of(
            existing(), workload("b", "11:58:00", WAITS), workload("c", "11:59:00", WAITS)
        ).of_kind(WORKLOADS)
    )
    (pod_set,) = odd.spec.pod_sets
    template = msgspec.Raw(codec.encode({"spec": spec}))
    pod_sets = (msgspec.structs.replace(pod_set, template=template),)
    forecast.put(
        WORKLOADS, msgspec.structs.replace(odd, spec=msgspec.structs.replace(odd.spec, pod_sets=pod_sets))
    )
    forecast.put(WORKLOADS, good)
    assert list(starts(forecast.refresh(BEGAN, 1e9).starts)) == ["c"]


def test_starts_that_did_not_come_are_left_out_and_a_changed_queue_drops_all_runs() -> None:
    waiting = workload("b", "11:58:00", WAITS)
    run_s = a_forecast(queue("q", 1), waiting, step_s=1.0).refresh(BEGAN, 1e9).processor_s / PLAYS
    forecast = a_forecast(queue("q", 1), waiting, step_s=1.0)
    forecast.refresh(BEGAN, run_s * 1.5)
    late = forecast.refresh(BEGAN + 60, run_s * 1.5)
    assert starts(late.starts) == {"b": (BEGAN + 60, 1)}
    (queue_object,) = world_of(existing(), queue("q", 0), waiting).of_kind(CLUSTER_QUEUES)
    forecast.put(CLUSTER_QUEUES, queue_object)
    closed = forecast.refresh(BEGAN + 61, 1e9)
    assert starts(closed.starts) == {"b": (None, PLAYS)}


def test_a_finished_workload_is_learned_from_and_leaves() -> None:
    forecast = a_forecast(
        queue("q", 1),
        running("a", "11:50:00"),
        workload("b", "11:58:00", WAITS),
        workload("c", "11:59:00", WAITS),
    )
    (a,) = world_of(existing(), running("a", "11:50:00")).of_kind(WORKLOADS)
    ended = msgspec.structs.replace(
        a.status.conditions[-1], type="Finished", status="True", last_transition_time=at_epoch(BEGAN)
    )
    status = msgspec.structs.replace(a.status, conditions=(*a.status.conditions, ended))
    forecast.put(WORKLOADS, with_uid(msgspec.structs.replace(a, status=status)))
    b, c = forecast.refresh(BEGAN, 1e9).starts
    assert b.p50 == BEGAN
    assert c.p50 == BEGAN + 600
    assert c.run_times == "default/q: 1 finished workloads"
    forecast.remove(WORKLOADS, b.key)
    (c,) = forecast.refresh(BEGAN, 1e9).starts
    assert c.p50 == BEGAN


def asked(name: str, queue_name: str = "q", cpu: int = 1) -> Workload:
    """Return a workload that does not exist yet."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}}
    pod_set = {"name": "main", "count": 1, "template": template}
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queueName": queue_name, "podSets": [pod_set]},
    }
    return codec.decode(Workload, codec.encode(body))


def test_a_workload_that_does_not_exist_yet_waits_behind_those_that_do() -> None:
    forecast = a_forecast(queue("q", 1), queue("free", 1), queue("wide", 5), workload("b", "11:58:00", WAITS))

    def ask(workload: Workload, *ahead: Workload) -> StartAnswer:
        return forecast.would_start(StartQuestion(workload=workload, ahead=ahead), BEGAN, 1e9).answer

    assert ask(asked("x")) == StartAnswer(starts="Within", p50_seconds=3600.0, p90_seconds=3600.0)
    assert ask(asked("x", "free")) == StartAnswer(
        starts="Within", p50_seconds=0.0, p90_seconds=0.0, spare=0.0
    )
    assert ask(asked("x", "wide", cpu=2), asked("y", "wide")).spare == 1.0, "two of five are left"
    assert ask(asked("x", "free"), asked("y", "free")).p50_seconds == 3600.0, (
        "the other one was submitted first"
    )
    assert ask(asked("x"), asked("b")).p50_seconds == 3600.0, "the other one exists already"
    assert ask(asked("b")) == ask(asked("x", "free")), "the stored workload of that name is meant"
    never = ask(asked("x", cpu=2))
    assert (never.starts, never.p50_seconds) == ("Never", None)
    assert "cpu" in never.reason
    missing = ask(asked("x", "absent"))
    assert missing.starts == "Never"
    assert "absent" in missing.reason
    assert starts(forecast.refresh(BEGAN, 1e9).starts) == {"b": (BEGAN, PLAYS)}, "nothing was stored"


@given(fraction=st.floats(0, 1, exclude_max=True), name=st.sampled_from(("a", "z")))
@settings(max_examples=10)
def test_workloads_that_are_named_ahead_start_first(fraction: float, name: str) -> None:
    forecast = a_forecast(queue("q", 1))
    question = StartQuestion(workload=asked(name), ahead=(asked("m"), asked("n")))
    assert forecast.would_start(question, BEGAN + fraction, 1e9).answer.p50_seconds == 7200.0


def test_a_workload_that_was_admitted_meanwhile_starts_now() -> None:
    forecast = a_forecast(queue("q", 1), running("a", "11:50:00"))
    answer = forecast.would_start(StartQuestion(workload=asked("a")), BEGAN, 1e9).answer
    assert answer == StartAnswer(starts="Within", p50_seconds=0.0, p90_seconds=0.0)


def test_a_question_is_given_up_when_its_processor_time_is_used() -> None:
    forecast = a_forecast(queue("q", 1), workload("b", "11:58:00", WAITS), step_s=1.0)
    assert forecast.would_start(StartQuestion(workload=asked("x")), BEGAN, 0.5).answer.starts == "Unknown"


PLACED = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: hosts}
spec: {levels: [{nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: placed}
spec: {topologyName: hosts, nodeLabels: {pool: placed}}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1, pool: placed}}
status: {allocatable: {cpu: 1, pods: 9}, conditions: [{type: Ready, status: "True"}]}
"""


@pytest.mark.parametrize("of_nodes", [False, True], ids=["amounts", "nodes"])
@pytest.mark.parametrize(
    ("opens", "runs", "starts"),
    [
        pytest.param(-60, 1800, [540, 2340], id="it has begun: both wait until it ends"),
        pytest.param(600, 1800, [1200, 3000], id="both would run into it"),
        pytest.param(600, 600, [0, 1200], id="one ends before it begins"),
        pytest.param(1200, 600, [0, 600], id="both end before it begins"),
    ],
)
def test_an_estimate_beside_a_maintenance_window_is_the_start_in_a_simulation_that_plays_it(
    opens: int, runs: int, starts: list[int], of_nodes: bool
) -> None:
    kept = "nodes: {names: [n1]}" if of_nodes else "amounts: [{flavor: default, resources: {cpu: 1}}]"
    window = f"""---
apiVersion: quorate.dev/v1alpha1
kind: Reservation
metadata: {{name: repair}}
spec:
  start: "{at_epoch(BEGAN + opens).isoformat()}"
  durationSeconds: 600
  purpose: Maintenance
  {kept}
"""
    flavor = "placed" if of_nodes else "default"
    queues = queue("q", 1).replace("name: default, resources", f"name: {flavor}, resources")
    waiting = [
        workload(name, f"11:5{at}:00", WAITS, spec=f"maximumExecutionTimeSeconds: {runs}")
        for at, name in enumerate("bc")
    ]
    documents = [queues, PLACED, window, *waiting]
    found = a_forecast(*documents).refresh(BEGAN, 1e9)
    assert [start.p50 for start in found.starts] == [BEGAN + start for start in starts]
    run = play(world_of(existing().replace("30m", f"{runs}s"), *documents))
    assert [at / 1000 for at in run.jobs.admitted_ms] == starts
