"""Writes of decisions beside other writes to the same workload."""

import asyncio
import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.kueue import Admission, Workload, WorkloadSpec
from quorate.controllers.admission.writer import AdmissionWriter
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import Informers
from quorate.kube.events import EventRecorder
from quorate.queueing.decisions import Decision, Reserve
from tests.controllers.objects import a_workload
from tests.kube.fake_server import Answer, FakeServer, Request, Stream, refusal
from tests.kube.virtual_clock import VirtualClock

DECIDED_ON = a_workload()
KEY = DECIDED_ON.metadata.key
UID = DECIDED_ON.metadata.uid
NEWER = replace(DECIDED_ON, metadata=replace(DECIDED_ON.metadata, resource_version="2000"))
RESERVE = Reserve(
    key=KEY,
    uid=UID,
    resource_version="",
    cluster_queue="cq",
    admission=Admission(cluster_queue="cq"),
    admitted=True,
    waited_s=0.0,
)


@pytest.mark.parametrize(
    ("delivered", "expected"),
    [
        pytest.param(DECIDED_ON, DECIDED_ON.metadata.resource_version, id="nothing else is written"),
        pytest.param(NEWER, "2000", id="another condition is written meanwhile"),
        pytest.param(replace(NEWER, spec=WorkloadSpec(active=False)), None, id="it is deactivated meanwhile"),
        pytest.param(replace(NEWER, metadata=replace(NEWER.metadata, uid="another")), None, id="made again"),
    ],
)
def test_a_decision_is_written_on_the_version_delivered_while_it_still_applies(
    delivered: Workload, expected: str | None
) -> None:
    stored: Any = msgspec.json.decode(codec.encode(delivered))
    accepted: list[str] = []  # versions on which the server accepted the write
    refused: list[Decision | None] = []

    async def story() -> None:
        ended = asyncio.Event()

        def answer(request: Request) -> Answer | Stream:
            if request.method == "GET":
                metadata = {"resourceVersion": "3000"}
                listed = {"kind": "WorkloadList", "metadata": metadata, "items": [stored]}
                return Stream((), hold=ended) if "watch" in request.query else Answer(body=listed)
            version = request.body["metadata"]["resourceVersion"]
            if version != stored["metadata"]["resourceVersion"]:
                return Answer(409, refusal(409, "Conflict"))
            accepted.append(version)
            return Answer(body={"metadata": {"resourceVersion": "3001"}})

        clock = VirtualClock()
        async with FakeServer(answer) as server, server.client() as client:
            informers = Informers(client)
            context = ControllerContext(
                client,
                clock,
                EventRecorder(client, clock, "quorate"),
                Configuration(),
                informers,
                random.Random(1),
                record=lambda *_: None,
                forget=lambda _: None,
            )
            writer = AdmissionWriter(context, on_refusal=refused.append, on_written=lambda _: None)
            reading = asyncio.create_task(informers.workloads.run())
            await informers.workloads.synced.wait()
            async with asyncio.TaskGroup() as writes:
                others = asyncio.all_tasks()
                writer.start(writes, RESERVE, DECIDED_ON)
                (write,) = asyncio.all_tasks() - others
                await write
                refused.append(writer.observe(KEY))
                await clock.advance_to(clock.now() + 3600)
            reading.cancel()
            ended.set()

    asyncio.run(story())
    assert accepted == [version for version in (expected,) if version is not None]
    assert any(refused) == (expected is None)
