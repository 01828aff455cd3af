"""What a pod does next, in virtual time."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import find_condition
from quorate.local.nodes.pod_status import PodAddresses
from quorate.local.runtime.containers.files import ContainerRecord, Termination
from quorate.local.runtime.pod_types import Pod
from quorate.local.runtime.pods.lifecycle import (
    Actions,
    Ending,
    backoff_left_s,
    next_actions,
    next_attempt,
    reset_record,
)
from quorate.local.runtime.pods.probes import Health
from quorate.local.runtime.pods.status import PodObservation, pod_status

NOW = 1_800_000_000.0


def a_pod(restart_policy: str = "Always", *, inits: tuple[Mapping[str, Any], ...] = (), **spec: Any) -> Pod:
    body = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "restartPolicy": restart_policy,
            "containers": [{"name": "main", "image": "i"}],
            "initContainers": inits,
            **spec,
        },
    }
    return codec.decode(Pod, codec.encode(body))


def running(since: float = NOW, attempt: int = 0) -> ContainerRecord:
    return ContainerRecord(attempt=attempt, started_at=since)


def ended(code: int, at: float = NOW, *, record: ContainerRecord | None = None) -> ContainerRecord:
    began = record or running(at - 1)
    end = Termination(code, "Error" if code else "Completed", "", began.started_at or at, at)
    return replace(began, ended=end)


SIDECAR = {"name": "side", "restartPolicy": "Always"}
FIRST, SECOND = {"name": "first"}, {"name": "second"}


@pytest.mark.parametrize(
    ("pod", "records", "want"),
    [
        pytest.param(a_pod(), {}, Actions(start=("main",)), id="a container starts"),
        pytest.param(
            a_pod(inits=(FIRST, SECOND)), {}, Actions(start=("first",)), id="init containers start in turn"
        ),
        pytest.param(
            a_pod(inits=(FIRST, SECOND)),
            {"first": ended(0)},
            Actions(start=("second",)),
            id="the next init container starts after the first has succeeded",
        ),
        pytest.param(
            a_pod(inits=(SIDECAR, FIRST)),
            {"side": running()},
            Actions(start=("first",)),
            id="an init container starts beside a sidecar",
        ),
        pytest.param(
            a_pod("Never", inits=(FIRST,)), {"first": ended(1)}, Actions(is_finished=True), id="init fails"
        ),
        pytest.param(a_pod("Never"), {"main": ended(1)}, Actions(is_finished=True), id="Never"),
        pytest.param(
            a_pod("OnFailure"),
            {"main": ended(0)},
            Actions(is_finished=True),
            id="OnFailure",
        ),
        pytest.param(a_pod("OnFailure"), {"main": ended(1)}, Actions(start=("main",)), id="at once"),
        pytest.param(
            a_pod(),
            {"main": replace(ended(1), backoff_s=20.0)},
            Actions(wake_at=NOW + 20),
            id="a restart waits for its back-off",
        ),
        pytest.param(
            a_pod("Never", inits=(SIDECAR,)),
            {"side": running(), "main": ended(0)},
            Actions(stop={"side": ""}),
            id="sidecars end after the main containers",
        ),
        pytest.param(
            a_pod(inits=(SIDECAR,)),
            {"side": ended(1), "main": running()},
            Actions(start=("side",)),
            id="a sidecar restarts",
        ),
        pytest.param(
            a_pod(),
            {"main": ContainerRecord(attempt=2)},
            Actions(start=("main",)),
            id="a lost start",
        ),
    ],
)
def test_next_actions(pod: Pod, records: dict[str, ContainerRecord], want: Actions) -> None:
    assert next_actions(pod, records, {}, None, NOW) == want


RESTARTS_ALL = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]


@pytest.mark.parametrize(("main", "restarts"), [(ended(0, NOW - 1), False), (running(), True)])
def test_a_sidecar_that_ends_after_the_pod_restarts_nothing(main: ContainerRecord, restarts: bool) -> None:
    side = SIDECAR | {"restartPolicyRules": RESTARTS_ALL}
    pod = a_pod("Never", inits=(side,), containers=[{"name": "main"}])
    records = {"side": ended(88), "main": main}
    if restarts:
        assert next_actions(pod, records, {}, None, NOW).stop == {"main": "killing"}
        records["main"] = ended(137, NOW + 1)
    assert bool(next_actions(pod, records, {}, None, NOW).reset) is restarts


@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    beside=st.sampled_from([None, "running", 0, 1]),
    source=st.sampled_from(["side", "first", "main"]),
)
def test_a_pod_that_restarts_all_containers_begins_anew(
    policy: str, beside: str | int | None, source: str
) -> None:
    ruled = {"restartPolicy": "Never", "restartPolicyRules": RESTARTS_ALL}
    first, main = ({"name": name, **(ruled if name == source else {})} for name in ("first", "main"))
    side = ruled | SIDECAR if source == "side" else SIDECAR
    pod = a_pod(policy, inits=(side, first), containers=[main, {"name": "beside"}])
    records = {"side": running(), source: ended(88)}
    if source == "side":
        records["main"] = running()
    if source != "first":
        records["first"] = ended(0)
        if beside is not None:
            records["beside"] = running() if beside == "running" else ended(int(beside))
    started = set(records)
    seen = PodObservation(records, {}, {}, None, None, is_finished=False)
    assert _restarting_all(pod, seen) == "True"
    stopping = next_actions(pod, records, {}, None, NOW)
    assert set(stopping.stop) == {name for name in records if records[name].is_running}
    assert (stopping.grace_s, stopping.start, stopping.reset) == (0.0, (), ())
    for name in stopping.stop:
        records[name] = ended(137, record=records[name])
    reset = next_actions(pod, records, {}, None, NOW)
    assert set(reset.reset) == started
    assert reset.reset[-1] == source  # a kubelet that is killed before goes on after its restart
    for name in reset.reset:
        records[name] = reset_record(records[name])
    assert _restarting_all(pod, seen) == "False"
    status = pod_status(pod, seen, NOW)
    of_source = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}[source]
    assert of_source.restart_count == 1
    assert of_source.state.waiting is not None
    assert of_source.state.waiting.reason == "RestartingAllContainers"
    assert of_source.last_state.terminated is not None
    assert of_source.last_state.terminated.exit_code == 137
    order: list[str] = []
    for _ in range(4):
        actions = next_actions(pod, records, {}, None, NOW)
        order += actions.start
        for name in actions.start:
            records[name] = replace(next_attempt(records.get(name)), started_at=NOW)
        if "first" in actions.start:
            records["first"] = ended(0, record=records["first"])
    assert order == ["side", "first", "main", "beside"]


def _restarting_all(pod: Pod, seen: PodObservation) -> str:
    condition = find_condition(pod_status(pod, seen, NOW).conditions, "AllContainersRestarting")
    assert condition is not None
    return condition.status


def test_a_pod_that_ends_stops_its_sidecars_last() -> None:
    pod = a_pod(inits=(SIDECAR,))
    records = {"side": running(), "main": running()}
    assert next_actions(pod, records, {}, Ending(), NOW).stop == {"main": ""}
    records["main"] = ended(0)
    assert next_actions(pod, records, {}, Ending(), NOW).stop == {"side": ""}
    records["side"] = ended(0)
    assert next_actions(pod, records, {}, Ending(), NOW) == Actions(is_finished=True)


def test_a_container_that_fails_its_probe_is_stopped_with_the_reason() -> None:
    failing = {"main": Health(failure="failed liveness probe")}
    assert next_actions(a_pod(), {"main": running()}, failing, None, NOW).stop == {
        "main": "failed liveness probe"
    }


def test_the_backoff_doubles_from_ten_seconds_to_five_minutes_and_is_forgotten_after_ten_minutes() -> None:
    record, now, waits = ended(1), NOW, []
    for _ in range(8):
        left_s = backoff_left_s(record, now)
        waits.append(left_s)
        now += left_s
        started = replace(next_attempt(record), started_at=now)
        record = ended(1, now, record=started)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]
    assert record.attempt == 8
    long = ended(1, now + 601, record=replace(record, ended=None, started_at=now))
    assert backoff_left_s(long, now + 601) == 0
    assert next_attempt(long).backoff_s == 10


def test_a_command_that_cannot_start_is_delayed_as_one_that_fails() -> None:
    """Its end has no time of start, and the seconds since the epoch are no run of the container."""
    first = ContainerRecord(started_at=NOW, ended=Termination(128, "StartError", finished_at=NOW))
    failed = replace(next_attempt(first), ended=first.ended)
    assert backoff_left_s(failed, NOW + 1) == 9
    assert next_attempt(failed).backoff_s == 20


@given(
    policy=st.sampled_from(["Never", "OnFailure", "Always"]),
    own=st.sampled_from(["", "Never", "OnFailure", "Always"]),
    retried=st.none() | st.sets(st.integers(0, 2), min_size=1),
    codes=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    sidecar=st.booleans(),
)
def test_a_pod_ends_if_and_only_if_its_policies_restart_nothing(
    policy: str, own: str, retried: set[int] | None, codes: list[int], sidecar: bool
) -> None:
    """Let the main container end with these codes in turn, and the sidecar when it is stopped.

    ``own``: the policy of the container; ``retried``: the codes with which a rule restarts it.
    """
    exits = {"operator": "In", "values": sorted(retried or ())}
    rules = [{"action": "Restart", "exitCodes": exits}] if retried else []
    main = {"name": "main", "image": "i", "restartPolicy": own, "restartPolicyRules": rules}
    pod = a_pod(policy, inits=(SIDECAR,) if sidecar else (), containers=[main])
    records: dict[str, ContainerRecord] = {}
    now, left = NOW, list(codes)
    for _ in range(100):
        actions = next_actions(pod, records, {}, None, now)
        if actions.is_finished:
            break
        for name in actions.start:
            records[name] = replace(next_attempt(records.get(name)), started_at=now)
        for name in actions.stop:
            records[name] = ended(143, now, record=records[name])
        if actions.wake_at is not None:
            now = actions.wake_at
        elif records.get("main", ContainerRecord()).is_running:
            if not left:
                break
            now += 1
            records["main"] = ended(left.pop(0), now, record=records["main"])
    used = own or policy
    final = [
        index
        for index, code in enumerate(codes)
        if code not in (retried or ()) and (used == "Never" or (used == "OnFailure" and code == 0))
    ]
    assert next_actions(pod, records, {}, None, now).is_finished is bool(final)
    assert records["main"].attempt == (final[0] if final else len(codes))


@given(
    policy=st.sampled_from(["Always", "OnFailure", "Never"]),
    main=st.sampled_from([None, running(), ended(0), ended(1)]),
    debug=st.sampled_from([None, running(), ended(0), ended(1)]),
)
def test_an_ephemeral_container_changes_nothing_of_the_others_and_starts_once(
    policy: str, main: ContainerRecord | None, debug: ContainerRecord | None
) -> None:
    pod = a_pod(policy)
    with_debug = a_pod(policy, ephemeralContainers=[{"name": "debug"}])
    records = {"main": main} if main is not None else {}
    alone = next_actions(pod, records, {}, None, NOW)
    records |= {"debug": debug} if debug is not None else {}
    both = next_actions(with_debug, records, {}, None, NOW)
    assert [name for name in both.start if name != "debug"] == list(alone.start)
    assert ("debug" in both.start) is (debug is None and not alone.is_finished)
    assert ("debug" in both.stop) is (debug == running() and alone.is_finished)
    assert both.is_finished is (alone.is_finished and debug != running())


def observe(records: dict[str, ContainerRecord], **fields: Any) -> PodObservation:
    values = {
        "health": {},
        "waiting": {},
        "addresses": PodAddresses("10.0.0.1", "10.244.0.2"),
        "ending": None,
        "is_finished": False,
        **fields,
    }
    return PodObservation(records=records, **values)


@pytest.mark.parametrize(
    ("pod", "seen", "want"),
    [
        pytest.param(a_pod(), observe({}), "Pending ContainerCreating", id="before the start"),
        pytest.param(a_pod(inits=(FIRST,)), observe({}), "Pending PodInitializing", id="init"),
        pytest.param(a_pod(), observe({"main": running()}), "Running running Ready", id="running"),
        pytest.param(
            a_pod(),
            observe({"main": running()}, health={"main": Health(ready=False)}),
            "Running running",
            id="not ready",
        ),
        pytest.param(
            a_pod(),
            observe({"main": replace(ended(1), backoff_s=10.0)}),
            "Running CrashLoopBackOff",
            id="waiting for its back-off",
        ),
        pytest.param(
            a_pod("Never"), observe({"main": ended(0)}, is_finished=True), "Succeeded Completed", id="ok"
        ),
        pytest.param(a_pod("Never"), observe({"main": ended(2)}, is_finished=True), "Failed Error", id="bad"),
        pytest.param(
            a_pod("Never"),
            observe({"main": ended(0)}, is_finished=True, ending=Ending("DeadlineExceeded", "late")),
            "Failed Completed DeadlineExceeded",
            id="an ending with a reason fails the pod",
        ),
        pytest.param(
            a_pod(),
            observe({}, is_finished=True, ending=Ending()),
            "Failed ContainerStatusUnknown",
            id="deleted before its start",
        ),
        pytest.param(
            a_pod("Never", inits=(FIRST,)),
            observe({"first": ended(3)}, is_finished=True),
            "Failed PodInitializing",
            id="a failed init container",
        ),
    ],
)
def test_pod_status(pod: Pod, seen: PodObservation, want: str) -> None:
    status = pod_status(pod, seen, NOW)
    state = status.container_statuses[0].state
    reason = (
        state.waiting.reason if state.waiting else state.terminated.reason if state.terminated else "running"
    )
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    initialized = find_condition(status.conditions, "Initialized")
    assert initialized is not None
    assert (initialized.status == "False") is (reason == "PodInitializing")
    words = [status.phase, reason, *(["Ready"] if ready.status == "True" else []), status.reason]
    assert " ".join(filter(None, words)) == want


def test_a_status_is_a_fixed_point() -> None:
    pod = a_pod()
    seen = observe({"main": running()})
    once = replace(pod, status=pod_status(pod, seen, NOW))
    assert pod_status(once, seen, NOW + 60) == once.status
