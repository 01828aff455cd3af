"""Worker clusters are asked over HTTP; one that is slow delays no other."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.explanation import StartAnswer, StartQuestion
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.controllers.multikueue.dispatch import start_questions
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ASK_SOON_S,
    ClusterStart,
    NeverStarts,
    NominationInput,
    StartsBy,
    UnknownStart,
    earliest_start,
)
from quorate.controllers.multikueue.dispatch.start_questions import AskModel, StartQuestions
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.rest.config import RestConfig
from tests.controllers.multikueue.dispatch.dispatch_objects import local
from tests.kube.virtual_clock import VirtualClock
from tests.observe.listening import listening

Answering = Callable[[StartQuestion], Awaitable[StartAnswer | None]]
CLUSTERS = ("a", "b", "c")


@asynccontextmanager
async def cluster(name: str, answering: Answering) -> AsyncIterator[Worker]:
    """Serve the estimates API of a worker cluster; an answer of None: it is not served."""

    async def answer(request: web.Request) -> web.Response:
        answered = await answering(codec.decode(StartQuestion, await request.read()))
        if answered is None:
            raise web.HTTPNotFound
        return web.Response(body=codec.encode(answered), content_type="application/json")

    app = web.Application()
    app.router.add_post("/apis/visibility.quorate.dev/v1beta1/namespaces/{namespace}/estimates", answer)
    async with (
        listening("estimates", app) as url,
        Client(RestConfig(url), random.Random(1)) as client,
    ):
        yield Worker(name, client, Informer(client, WORKLOAD_COPIES))


async def within(seconds: float) -> StartAnswer:
    return StartAnswer(starts="Within", p50_seconds=seconds)


async def never() -> StartAnswer:
    return StartAnswer(starts="Never", reason="no such flavor")


def test_all_clusters_are_asked_and_a_slow_one_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_questions, "DEADLINE_S", 0.5)
    asyncio.run(_story())


async def _story() -> None:
    clock, workers = VirtualClock(1000.0), Workers()
    released, answered = asyncio.Event(), asyncio.Queue[Key]()
    counts = dict.fromkeys(CLUSTERS, 0)

    async def from_a(question: StartQuestion) -> StartAnswer:
        counts["a"] += 1
        assert question.workload.spec == local().spec
        return await within(180)

    async def from_b(question: StartQuestion) -> StartAnswer:
        counts["b"] += 1
        await released.wait()
        return await within(0)

    async def from_c(question: StartQuestion) -> StartAnswer:
        counts["c"] += 1
        return await never()

    questions = StartQuestions(workers, clock, None)
    questions.on_answered = answered.put_nowait
    async with (
        cluster("a", from_a) as a,
        cluster("b", from_b) as b,
        cluster("c", from_c) as c,
        asyncio.TaskGroup() as tasks,
    ):
        for worker in (a, b, c):
            workers.connected(worker)
        running = tasks.create_task(questions.run())
        await asyncio.sleep(0)
        workload = local()
        assert questions.starts_of(workload, CLUSTERS) == {}
        assert await asyncio.wait_for(answered.get(), 20) == workload.metadata.key
        expected = {
            "a": StartsBy(1180.0),
            "b": UnknownStart("no answer within 0.5 s"),
            "c": NeverStarts("no such flavor"),
        }
        assert questions.starts_of(workload, CLUSTERS) == expected
        assert counts == {"a": 1, "b": 1, "c": 1}, "answers count for a while"

        released.set()
        clock.pass_time(ASK_SOON_S + 270)
        assert questions.starts_of(workload, CLUSTERS) == expected, "old answers are kept meanwhile"
        await asyncio.wait_for(answered.get(), 20)
        assert questions.starts_of(workload, CLUSTERS) == {
            "a": StartsBy(1480.0),
            "b": StartsBy(1300.0),
            "c": NeverStarts("no such flavor"),
        }
        running.cancel()


def test_a_slow_cluster_is_not_asked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_questions, "DEADLINE_S", 0.3)

    async def story() -> None:
        clock, workers, answered, asked = VirtualClock(1000.0), Workers(), asyncio.Queue[Key](), 0

        async def slow(question: StartQuestion) -> StartAnswer:
            nonlocal asked
            asked += 1
            await asyncio.Event().wait()  # until the connection is closed
            raise AssertionError("it never answers")

        questions = StartQuestions(workers, clock, None)
        questions.on_answered = answered.put_nowait
        async with cluster("a", slow) as a, asyncio.TaskGroup() as tasks:
            workers.connected(a)
            running = tasks.create_task(questions.run())
            await asyncio.sleep(0)
            for name in ("x", "y", "z"):
                questions.starts_of(named(name), ("a",))
                await asyncio.wait_for(answered.get(), 20)
            assert asked == 1
            assert questions.starts_of(named("z"), ("a",)) == {"a": UnknownStart("it answers too slowly")}
            running.cancel()

    asyncio.run(story())


async def model(name: str, client: Client, question: StartQuestion) -> StartAnswer:
    return await within(60 if name == "a" else 0)


@pytest.mark.parametrize(
    ("ask_model", "expected"),
    [(None, UnknownStart("it serves no estimates")), (model, StartsBy(1060.0))],
)
def test_a_cluster_without_estimates_is_asked_through_a_model_of_it(
    ask_model: AskModel | None, expected: ClusterStart
) -> None:
    async def story() -> None:
        workers, answered = Workers(), asyncio.Queue[Key]()

        async def none(question: StartQuestion) -> None:
            return None

        questions = StartQuestions(workers, VirtualClock(1000.0), ask_model)
        questions.on_answered = answered.put_nowait
        async with cluster("a", none) as a, asyncio.TaskGroup() as tasks:
            workers.connected(a)
            running = tasks.create_task(questions.run())
            await asyncio.sleep(0)
            questions.starts_of(local(), ("a",))
            await asyncio.wait_for(answered.get(), 20)
            assert questions.starts_of(local(), ("a",)) == {"a": expected}
            running.cancel()

    asyncio.run(story())


def test_the_next_question_names_what_was_nominated_a_moment_ago() -> None:
    """Two workloads are not offered the same room, although no cluster knows a copy of the first one yet."""

    async def story() -> None:
        workers, answered = Workers(), asyncio.Queue[Key]()

        async def one_fits(question: StartQuestion) -> StartAnswer:
            return await within(600.0 * len(question.ahead))

        questions = StartQuestions(workers, VirtualClock(1000.0), None)
        questions.on_answered = answered.put_nowait
        async with (
            cluster("b", one_fits) as b,
            cluster("a", one_fits) as a,
            asyncio.TaskGroup() as tasks,
        ):
            for worker in (a, b):
                workers.connected(worker)
            running = tasks.create_task(questions.run())
            await asyncio.sleep(0)
            workloads = [named(name) for name in ("x", "y", "z")]
            for workload in workloads:
                questions.starts_of(workload, ("b", "a"))
            for _ in workloads:
                await asyncio.wait_for(answered.get(), 20)
            now, later = StartsBy(1000.0), StartsBy(1600.0)
            assert [questions.starts_of(workload, ("b", "a")) for workload in workloads] == [
                {"b": now, "a": now},
                {"b": later, "a": now},
                {"b": later, "a": later},
            ]
            running.cancel()

    asyncio.run(story())


def named(name: str) -> Workload:
    workload = local()
    return replace(workload, metadata=replace(workload.metadata, name=name))


SLOTS = {"a": 3, "b": 8, "c": 2, "d": 6, "e": 4}
RUNS_S = 600.0


def test_equal_workloads_ask_few_clusters_and_choose_as_if_they_asked_all() -> None:
    """Each cluster runs as many of the workloads at once as it has slots, each for ten minutes."""

    async def story() -> None:
        clock, workers, answered = VirtualClock(1000.0), Workers(), asyncio.Queue[Key]()
        assigned, asked = dict.fromkeys(SLOTS, 0), 0

        def truth(name: str) -> tuple[float, float]:
            """Return when a cluster starts one more workload, and how many more fit if that is now."""
            rounds, taken = divmod(assigned[name], SLOTS[name])
            return 1000.0 + rounds * RUNS_S, SLOTS[name] - taken - 1 if rounds == 0 else 0

        async def answer(name: str, client: Client, question: StartQuestion) -> StartAnswer:
            nonlocal asked
            asked += 1
            at, spare = truth(name)
            seconds = max(0.0, at - clock.now())
            return StartAnswer(starts="Within", p50_seconds=seconds, spare=None if seconds else spare)

        async def none(question: StartQuestion) -> None:
            return None

        questions = StartQuestions(workers, clock, answer)
        questions.on_answered = answered.put_nowait
        async with cluster("a", none) as worker, asyncio.TaskGroup() as tasks:
            for name in SLOTS:
                workers.connected(Worker(name, worker.client, worker.workloads))
            running = tasks.create_task(questions.run())
            await asyncio.sleep(0)
            for number in range(60):
                workload = named(f"job-{number}")
                questions.starts_of(workload, tuple(SLOTS))
                await asyncio.wait_for(answered.get(), 20)
                starts = questions.starts_of(workload, tuple(SLOTS))
                nomination = earliest_start(_input(workload, starts, clock.now()))
                expected = min(SLOTS, key=lambda name: (*truth(name), tuple(SLOTS).index(name)))
                assert nomination.clusters == (expected,), number
                assigned[expected] += 1
                clock.pass_time(0.1)
            assert asked <= 90, "all clusters would be 300 questions"
            running.cancel()

    asyncio.run(story())


def _input(workload: Workload, starts: Mapping[str, ClusterStart], now: float) -> NominationInput:
    return NominationInput(
        workload=workload, clusters=tuple(SLOTS), connected=frozenset(SLOTS), nominated=(),
        round_started=None, now=now, estimates=starts,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("waits", "after_s", "asked"),
    [
        ({"a": 0, "b": 600, "c": 90}, 40, "a"),  # it starts at once where it is
        ({"a": 400, "b": 20_000, "c": 80}, 110, "ac"),  # the answer of b counts for an hour
        ({"a": 400, "b": 2_000, "c": 80}, 510, "abc"),
        ({"a": 400, "b": 20_000, "c": 80}, 30, ""),  # the answer of a counts for 100 seconds
    ],
)
def test_a_waiting_workload_asks_where_it_may_start_earlier(
    waits: dict[str, float], after_s: float, asked: str
) -> None:
    async def story() -> None:
        clock, workers, answered = VirtualClock(1000.0), Workers(), asyncio.Queue[Key]()
        names: list[str] = []

        async def answer(name: str, client: Client, question: StartQuestion) -> StartAnswer:
            names.append(name)
            return await within(waits[name])

        async def none(question: StartQuestion) -> None:
            return None

        questions = StartQuestions(workers, clock, answer)
        questions.on_answered = answered.put_nowait
        async with cluster("a", none) as worker, asyncio.TaskGroup() as tasks:
            for name in CLUSTERS:
                workers.connected(Worker(name, worker.client, worker.workloads))
            running = tasks.create_task(questions.run())
            await asyncio.sleep(0)
            workload = local(nominated=("a",))
            waits["a"], wait = 5_000, waits["a"]
            questions.starts_of(workload, CLUSTERS)
            await asyncio.wait_for(answered.get(), 20)
            assert sorted(names) == ["a", "b", "c"]
            waits["a"] = wait
            clock.pass_time(1_300)
            names.clear()
            questions.starts_of(workload, CLUSTERS)
            await asyncio.wait_for(answered.get(), 20)
            clock.pass_time(after_s)
            names.clear()
            questions.starts_of(workload, CLUSTERS)
            if asked:
                await asyncio.wait_for(answered.get(), 20)
            assert "".join(sorted(names)) == asked
            running.cancel()

    asyncio.run(story())
