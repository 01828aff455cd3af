"""The output of a job: once for each run of each container, also while pods come and go."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

from quorate.api import codec
from quorate.api.core.started_pod import StartedPod
from quorate.api.meta import Uid
from quorate.inspect.connection import Connection
from quorate.inspect.job_logs import Line, follow_logs

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "train", "controller": True}


def pod(name: str, uid: str) -> StartedPod:
    status = {"name": "main", "restartCount": 0, "state": {"running": {}}}
    return codec.convert(
        StartedPod,
        {
            "metadata": {"name": name, "namespace": "lab", "uid": uid, "ownerReferences": [JOB]},
            "status": {"containerStatuses": [status]},
        },
    )


class PodsAtEachLook:
    """A client that lists the next of ``looks`` each time; the log of each container has one line."""

    def __init__(self, *looks: tuple[StartedPod, ...]) -> None:
        self.looks = list(looks)

    async def list(self, resource: object, namespace: str) -> Any:
        return SimpleNamespace(items=self.looks.pop(0))

    async def chunks(self, verb: str, path: str, *_: object, **__: object) -> AsyncIterator[bytes]:
        yield f"{path.split('/')[-2]} runs\n".encode()


def followed(*looks: tuple[StartedPod, ...]) -> list[Line]:
    client, lines = PodsAtEachLook(*looks), list[Line]()

    async def has_ended() -> bool:
        return len(client.looks) == 1

    connection = Connection(cast("Any", client), "lab")
    asyncio.run(follow_logs(connection, frozenset((Uid("train"),)), has_ended, lines.append))
    return lines


def test_a_pod_that_gets_a_name_for_its_lines_is_not_shown_again() -> None:
    assert followed((pod("a", "1"),), (pod("a", "1"), pod("b", "2"))) == [
        Line("", "a", "main", "a runs"), Line("b", "b", "main", "b runs")
    ]  # fmt: skip


def test_a_pod_that_replaces_another_of_its_name_is_shown_too() -> None:
    assert followed((pod("a", "1"),), (pod("a", "2"),)) == [Line("", "a", "main", "a runs")] * 2
