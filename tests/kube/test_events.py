"""Which events are written: series are counted, unique events are written once, bounds are kept."""

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.events import ObjectReference
from quorate.api.meta import Key, Uid
from quorate.api.syntax import is_dns_subdomain
from quorate.kube import events
from quorate.kube.events import EventRecorder, truncate
from quorate.kube.limits import EVENT_PAUSE_S, PROMPT_EVENTS, SERIES_ENDS_S
from quorate.kube.object_faults import Stage, fault_of
from quorate.kube.resources import WORKLOADS
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock

WORKLOAD = ObjectReference(
    api_version="kueue.x-k8s.io/v1beta2", kind="Workload", namespace="research", name="w", uid=Uid("u1")
)

Story = Callable[[EventRecorder, VirtualClock, FakeServer], Awaitable[None]]


def echo(request: Request) -> Answer:
    return Answer(200, {"metadata": {"name": "e"}} | request.body)


def play(story: Story, script: Callable[[Request], Answer] = echo, **options: Any) -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with FakeServer(script) as server, server.client() as client:
            recorder = EventRecorder(client, clock, "quorate", **options)
            running = asyncio.create_task(recorder.run())
            await story(recorder, clock, server)
            recorder.stop()
            await running

    asyncio.run(run())


def counts(server: FakeServer) -> list[tuple[str, int]]:
    return [(request.method, request.body.get("series", {}).get("count", 1)) for request in server.requests]


@pytest.mark.parametrize(
    ("write_s", "unwritten", "other_writes", "want_s"),
    [
        pytest.param(0.005, 1000, 1, 0.0, id="a prompt server gets the next event at once"),
        pytest.param(0.035, 1000, 1, EVENT_PAUSE_S, id="a busy one later"),
        pytest.param(3.0, 1000, 1, EVENT_PAUSE_S, id="but never much later"),
        pytest.param(3.0, 1000, 0, 0.0, id="others make it busy, not our writes"),
        pytest.param(3.0, PROMPT_EVENTS, 1, 0.0, id="few events never wait"),
    ],
)
def test_a_backlog_of_events_yields_to_the_other_writes_of_a_busy_server(
    write_s: float, unwritten: int, other_writes: int, want_s: float
) -> None:
    assert events.pause_s(write_s, unwritten, other_writes) == want_s


@pytest.mark.slow
def test_events_wait_while_other_writes_are_in_flight_and_warnings_come_first() -> None:
    clock, arrived, admitted = VirtualClock(), asyncio.Event(), asyncio.Event()
    reasons: list[str] = []

    async def busy(request: Request) -> Answer:
        if request.method == "PATCH":
            arrived.set()
            await admitted.wait()
        else:
            reasons.append(request.body["reason"])
            clock.pass_time(0.035)
        return echo(request)

    async def run() -> None:
        async with FakeServer(busy) as server, server.client() as client:
            recorder = EventRecorder(client, clock, "quorate", workers=1)
            admission = asyncio.create_task(client.patch(WORKLOADS, Key("research", "w"), {}))
            await arrived.wait()
            for number in range(PROMPT_EVENTS + 9):
                recorder.event(WORKLOAD, "Normal", f"Reserved{number}", "")
            recorder.event(WORKLOAD, "Warning", "Preempted", "")
            running = asyncio.create_task(recorder.run())
            for written in (["Preempted"], ["Preempted", "Reserved0"]):
                await clock.slept.wait()
                assert reasons == written
                clock.slept.clear()
                if len(written) == 2:
                    admitted.set()
                    await admission
                await clock.advance_to(clock.now() + EVENT_PAUSE_S)
            await recorder.drained()
            assert not clock.slept.is_set()
            assert reasons[2:] == [f"Reserved{number}" for number in range(1, PROMPT_EVENTS + 9)]
            recorder.stop()
            await running

    asyncio.run(run())


@pytest.mark.slow
def test_an_event_has_every_required_field() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.event(WORKLOAD, "Normal", "QuotaReserved", "4 of 4 pods")
        await recorder.drained()
        (request,) = server.requests
        assert request.path == "/apis/events.k8s.io/v1/namespaces/research/events"
        name = request.body["metadata"].pop("name")
        assert name.startswith("w.")
        assert request.body == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": "research"},
            "eventTime": "1970-01-01T00:16:40.000000Z",
            "type": "Normal",
            "reason": "QuotaReserved",
            "action": "QuotaReserved",
            "note": "4 of 4 pods",
            "regarding": {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "namespace": "research",
                "name": "w",
                "uid": "u1",
            },
            "reportingController": "quorate",
            "reportingInstance": "quorate",
        }

    play(story)


@pytest.mark.slow
def test_the_event_of_an_object_with_a_long_name_has_a_valid_name() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for length in range(220, 254):
            name = "a" * 200 + "-a.a" * 14
            recorder.event(replace(WORKLOAD, name=name[:length]), "Normal", "Admitted", "at last")
        await recorder.drained()
        names = [request.body["metadata"]["name"] for request in server.requests]
        assert len(names) == 34
        assert all(map(is_dns_subdomain, names))

    play(story)


@pytest.mark.slow
def test_a_repetition_is_written_soon_and_further_counts_once_a_minute() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.event(WORKLOAD, "Warning", "Pending", "no room")
        await recorder.drained()
        for second in range(1, 31):
            await clock.advance_to(1000.0 + second)
            recorder.event(WORKLOAD, "Warning", "Pending", "no room")
            await recorder.drained()
        assert counts(server) == [("POST", 1), ("PATCH", 2)]
        await clock.advance_to(1062.0)  # the response took a moment
        await recorder.drained()
        assert counts(server) == [("POST", 1), ("PATCH", 2), ("PATCH", 31)]
        assert server.requests[2].body == {
            "series": {"count": 31, "lastObservedTime": "1970-01-01T00:17:10.000000Z"}
        }

    play(story)


@pytest.mark.slow
def test_events_that_differ_in_their_message_only_are_one_series() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for victim in range(8):
            recorder.event(WORKLOAD, "Normal", "PreemptedWorkload", f"Preempted research/victim-{victim}")
        recorder.event(WORKLOAD, "Normal", "Admitted", "after 1 s")
        recorder.event(WORKLOAD, "Normal", "Admitted", "after 1 s", action="Admit")
        await recorder.drained()
        assert counts(server) == [("POST", 8), ("POST", 1), ("POST", 1)]
        assert server.requests[0].body["note"] == "Preempted research/victim-0"

    play(story)


@pytest.mark.slow
def test_another_message_about_another_version_begins_a_series() -> None:
    first, second = replace(WORKLOAD, resource_version="1"), replace(WORKLOAD, resource_version="2")

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for regarding, note in (
            (first, "a is deleted"),
            (first, "b is deleted"),
            (second, "a is deleted"),
            (second, "c is deleted"),
            (second, "d is deleted"),
        ):
            recorder.event(regarding, "Normal", "DeletedWorkload", note)
        await recorder.drained()
        assert counts(server) == [("POST", 3), ("POST", 2)]
        assert [request.body["note"] for request in server.requests] == ["a is deleted", "c is deleted"]
        versions = [request.body["regarding"]["resourceVersion"] for request in server.requests]
        assert versions == ["1", "2"]
        await clock.advance_to(1000.0 + SERIES_ENDS_S + 1)
        recorder.event(second, "Normal", "DeletedWorkload", "d is deleted")
        await recorder.drained()
        assert [request.method for request in server.requests] == ["POST"] * 3

    play(story)


@pytest.mark.slow
def test_a_different_message_or_a_long_pause_begins_a_new_event() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.event(WORKLOAD, "Normal", "Pending", "need 5, free 3")
        recorder.event(WORKLOAD, "Normal", "Pending", "need 5, free 4")
        await recorder.drained()
        await clock.advance_to(1000.0 + SERIES_ENDS_S + 1)
        recorder.event(WORKLOAD, "Normal", "Pending", "need 5, free 3")
        await recorder.drained()
        assert counts(server) == [("POST", 1)] * 3
        assert len({request.body["metadata"]["name"] for request in server.requests}) == 3

    play(story, distinct_messages=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "methods"),
    [
        pytest.param(
            [Answer(409, refusal(409, "AlreadyExists"))], ["POST", "PATCH"], id="an earlier attempt arrived"
        ),
        pytest.param(
            [Answer(404, refusal(404, "NotFound"))], ["POST", "POST"], id="no such namespace: dropped"
        ),
        pytest.param(
            [Answer(), Answer(404, {})], ["POST", "PATCH", "POST"], id="the event has expired: a new one"
        ),
    ],
)
def test_a_refused_write_is_dropped_or_replaced(answers: list[Answer], methods: list[str]) -> None:
    left = iter(answers)

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for moment in range(len(methods)):
            recorder.event(WORKLOAD, "Normal", "Pending", "no room")
            await recorder.drained()
            await clock.advance_to(1000.0 + moment * 61)
            await recorder.drained()
        assert [request.method for request in server.requests][: len(methods)] == methods

    def script(request: Request) -> Answer:
        answer = next(left, None)
        return echo(request) if answer is None or answer.status == 200 else answer

    play(story, script)


@pytest.mark.slow
def test_a_failed_write_is_retried_with_the_latest_count() -> None:
    left = iter([Answer(500, {}), Answer(500, {})])

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.event(WORKLOAD, "Normal", "Pending", "no room")
        await recorder.drained()
        recorder.event(WORKLOAD, "Normal", "Pending", "no room")
        await clock.advance_to(1001.0)
        await recorder.drained()
        await clock.advance_to(1002.0)
        await recorder.drained()
        assert counts(server) == [("POST", 1), ("POST", 2), ("POST", 2)]

    play(story, lambda request: next(left, None) or echo(request))


@pytest.mark.slow
def test_events_beyond_the_bound_are_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    most = 100

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for number in range(most + 5):
            recorder.event(WORKLOAD, "Normal", "Pending", f"no room, {number} before")
        await recorder.drained()
        assert len(server.requests) == most
        recorder.event(WORKLOAD, "Normal", "Admitted", "at last")
        await recorder.drained()
        assert server.requests[-1].body["reason"] == "Admitted"

    play(story, distinct_messages=True, max_unwritten=most)
    logged: list[Any] = [
        (record.message, record.__dict__["quorate_keys"])
        for record in caplog.records
        if record.name == events.__name__
    ]
    assert logged == [
        ("events are dropped: the server does not keep up", {"unwritten": most}),
        ("events were dropped", {"dropped": 5}),
    ]


@pytest.mark.slow
def test_drops_are_logged_once_while_the_server_does_not_keep_up(caplog: pytest.LogCaptureFixture) -> None:
    slow = iter([True] * 2)

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        for round_ in range(3):
            for number in range(12):
                recorder.event(WORKLOAD, "Normal", "Pending", f"no room, {round_} {number}")
            await recorder.drained()

    def script(request: Request) -> Answer:
        return echo(request) if next(slow, False) else Answer(500, {})

    play(story, script, distinct_messages=True, max_unwritten=10)
    messages = [record.message for record in caplog.records if record.name == events.__name__]
    assert messages == ["events are dropped: the server does not keep up"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later_s", "most_bytes"),
    [
        pytest.param(1.0, 800, id="a repetition may come: the count is remembered, the content is not"),
        pytest.param(SERIES_ENDS_S + 1, 100, id="a repetition begins a new series"),
    ],
)
def test_written_events_take_little_memory(later_s: float, most_bytes: int) -> None:
    written = 500

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        tracemalloc.start()
        try:
            for number in range(written):
                about = replace(WORKLOAD, name=f"workload-{number}")
                recorder.event(about, "Normal", "QuotaReserved", f"{number} " + 900 * "x")
            await recorder.drained()
            server.requests.clear()
            await clock.advance_to(1000.0 + later_s)
            recorder.event(WORKLOAD, "Normal", "QuotaReserved", "another")
            await recorder.drained()
            gc.collect()
            of_events = tracemalloc.Filter(True, events.__file__)
            held = tracemalloc.take_snapshot().filter_traces([of_events]).statistics("filename")
        finally:
            tracemalloc.stop()
        assert sum(each.size for each in held) < most_bytes * written

    play(story)


@given(st.text(max_size=60), st.integers(3, 80))
def test_a_truncated_text_fits_and_is_a_prefix(text: str, size_bytes: int) -> None:
    short = truncate(text, size_bytes)
    assert len(short.encode()) <= size_bytes
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))
    if len(text.encode()) <= size_bytes:
        assert short == text


@pytest.mark.slow
@pytest.mark.parametrize(("stored", "methods"), [(False, ["GET", "POST"]), (True, ["GET"])])
def test_a_unique_event_that_is_stored_is_not_written_again(stored: bool, methods: list[str]) -> None:
    def script(request: Request) -> Answer:
        if request.method == "GET":
            return (
                Answer(200, {"metadata": {"name": "e"}}) if stored else Answer(404, refusal(404, "NotFound"))
            )
        return echo(request)

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.event(WORKLOAD, "Warning", "NotGated", "it runs outside of quota", unique=True)
        await recorder.drained()
        assert [request.method for request in server.requests] == methods

    play(story, script)


@dataclass(frozen=True)
class Text:
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


@pytest.mark.slow
def test_a_description_is_recorded_again_only_after_another_report() -> None:
    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        waits, starts = Text("Suspended", "no local queue"), Text("Started", "admitted")
        assert recorder.report(WORKLOAD, [waits], unique=True)
        assert not recorder.report(WORKLOAD, [waits], unique=True)
        assert recorder.report(WORKLOAD, [starts], unique=False)
        assert recorder.report(WORKLOAD, [starts], unique=False)
        assert recorder.report(WORKLOAD, [waits], unique=True)
        assert recorder.report(WORKLOAD, [], unique=True)
        assert recorder.report(WORKLOAD, [waits], unique=True)
        recorder.forget(WORKLOADS, Key("research", "w"))
        assert recorder.report(WORKLOAD, [waits], unique=True)

    play(story)


@pytest.mark.parametrize(
    ("stage", "error", "want"),
    [
        pytest.param(
            "reconcile", LookupError("no such flavor"),
            ("Unusable", "internal error, see the log of this component: LookupError: no such flavor"),
            id="a bug",
        ),
        pytest.param(
            "reconcile", msgspec.ValidationError("Expected `str` - at `$.spec`"),
            ("Unreadable", "a part cannot be read: Expected `str` - at `$.spec`"),
            id="a pod template that is decoded late",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_an_object_is_an_event_on_it(
    stage: Stage, error: Exception, want: tuple[str, str]
) -> None:
    fault = fault_of(WORKLOADS, stage, Key("research", "w"), None, error)

    async def story(recorder: EventRecorder, clock: VirtualClock, server: FakeServer) -> None:
        recorder.report_fault(fault)
        await recorder.drained()
        *_, request = server.requests  # after a search for an earlier one
        assert (request.body["reason"], request.body["note"]) == want

    play(
        story,
        lambda request: echo(request) if request.method == "POST" else Answer(404, refusal(404, "NotFound")),
    )
    assert (fault.error is None) is (want[0] == "Unreadable")  # then the log has no traceback
