"""The output of a job: once for each run of each container, also while pods come and go."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.api import codec
from quorate.api.core.started_pod import StartedPod
from quorate.api.meta import Uid
from quorate.inspect.connection import Connection
from quorate.inspect.job_logs import Line, follow_logs
from quorate.kube.errors import Unreachable

STAMP = "2026-01-01T00:00:00"
UNREACHABLE = Unreachable("GET /log", "https://cluster", "connection refused")
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
    """A client that lists the next of ``looks`` each time, or fails; each container writes ``texts``.

    Each of the first ``breaks`` streams ends, or breaks, within its last line.
    """

    def __init__(
        self, *looks: tuple[StartedPod, ...] | Exception, texts: Sequence[str], breaks: Sequence[bool]
    ) -> None:
        self.looks, self.texts, self.breaks = list(looks), texts, list(breaks)

    async def list(self, resource: object, namespace: str) -> Any:
        look = self.looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return SimpleNamespace(items=look)

    async def chunks(
        self, verb: str, path: str, query: Mapping[str, str], **_: object
    ) -> AsyncIterator[bytes]:
        name = path.split("/")[-2]
        since = query.get("sinceTime", "")[: len(STAMP)]  # in whole seconds, as for a kubelet
        lines = [f"{STAMP}.{number:09}Z {name} {text}\n" for number, text in enumerate(self.texts)]
        written = "".join(line for line in lines if line >= since).encode()
        if not self.breaks:
            yield written
            return
        yield written[:-3]
        if self.breaks.pop(0):
            raise UNREACHABLE


def followed(
    *looks: tuple[StartedPod, ...] | Exception, texts: Sequence[str] = ("runs",), breaks: Sequence[bool] = ()
) -> list[Line]:
    client, lines = PodsAtEachLook(*looks, texts=texts, breaks=breaks), list[Line]()

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


@pytest.mark.parametrize("breaks", [(True,), (True, True), (False,)])
def test_after_a_restart_of_the_api_server_each_line_is_shown_once(breaks: Sequence[bool]) -> None:
    look = (pod("a", "1"),)
    looks = (look, UNREACHABLE, look, look, look)
    shown = followed(*looks, texts=("begins", "goes on", "ends"), breaks=breaks)
    assert [line.text for line in shown] == ["a begins", "a goes on", "a ends"]
