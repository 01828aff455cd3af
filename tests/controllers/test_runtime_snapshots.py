"""The stored runtimes of TrainJobs: when they are read again."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.runtime_snapshots import RuntimeSnapshots
from tests.controllers.jobs.test_unstructured import foreign_job
from tests.kube.fake_server import Answer, FakeServer, Request, refusal

JOB, RUNTIME = foreign_job({}), foreign_job({"mlPolicy": {"numNodes": 1}})
STORED = {"mlPolicy": {"numNodes": 2}}


def changed(obj: UnstructuredJob, **metadata: Any) -> UnstructuredJob:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **metadata))


def snapshot(request: Request) -> Answer:
    owner = {"uid": JOB.metadata.uid, "controller": True, "apiVersion": "v1", "kind": "TrainJob", "name": "a"}
    metadata = {"name": request.path.rpartition("/")[2], "namespace": "default", "ownerReferences": [owner]}
    return Answer(200, {"metadata": metadata, "data": {"runtime": json.dumps({"spec": STORED})}})


def absent(request: Request) -> Answer:
    return Answer(404, refusal(404, "NotFound"))


@pytest.mark.parametrize(
    ("answer", "then", "requests"),
    [
        pytest.param(absent, (JOB, RUNTIME), 1, id="nothing changed"),
        pytest.param(absent, (changed(JOB, resource_version="9"), RUNTIME), 2, id="the job changed"),
        pytest.param(absent, (JOB, changed(RUNTIME, generation=9)), 2, id="the runtime changed"),
        pytest.param(absent, (JOB, changed(RUNTIME, uid="another")), 2, id="the runtime was created again"),
        pytest.param(absent, (JOB, None), 2, id="the runtime was deleted"),
        pytest.param(
            snapshot, (changed(JOB, resource_version="9"), None), 1, id="a snapshot is never read again"
        ),
    ],
)
def test_a_snapshot_is_read_again_when_the_answer_may_have_changed(
    answer: Any, then: tuple[UnstructuredJob, UnstructuredJob | None], requests: int
) -> None:
    async def run() -> None:
        async with FakeServer(answer) as server, server.client() as client:
            snapshots = RuntimeSnapshots(client)
            specs = [await snapshots.of(JOB, RUNTIME), await snapshots.of(*then)]
        assert specs == [STORED if answer is snapshot else None] * 2
        assert len(server.requests) == requests

    asyncio.run(run())
