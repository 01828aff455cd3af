"""The witness beside a story: no pod may run outside of quota or beyond its node for longer than a grace."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Final

from quorate.api.configuration.queueing import ResourceOptions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.discovery import plural_of
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import RestConfig, load_rest_config
from quorate.witness.process import Options, run_witness
from quorate.witness.report import Reason, Report

GRACE_S: Final = 5.0  # pods of the simulated nodes end within a second, also on a busy machine
INTERVAL_S: Final = 0.2
POLL_S: Final = 0.05
WITHIN_S: Final = 60.0  # for the witness to end
EXPECTED: set[str] = set()
"""Reasons of differences that the running test provokes; the fixture ``witness_of_the_stories`` sets them."""


class Witnessed:
    """What the witness of one cluster has found."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin again, for the next story in the same cluster."""
        self.resources = ResourceOptions()  # of the Configuration with which the controllers were started
        self.reports = 0
        self.report = Report((), (), ())
        self.faults: dict[str, None] = {}  # the messages of lasting faults, in order

    def reported(self, report: Report) -> None:
        self.reports += 1
        self.report = report
        for each in report.lasting:
            if _fails(each.reason):
                self.faults[f"{each.reason} {each.place.kind} {each.place.name}: {each.message}"] = None

    @property
    def has_faults(self) -> bool:
        return any(_fails(each.reason) for each in self.report.differences)

    async def check(self) -> None:
        """Raise ``AssertionError`` if a fault lasted longer than the grace, or lasts at the end."""
        while self.has_faults and not self.faults:  # noqa: ASYNC110  each report replaces the last
            await asyncio.sleep(POLL_S)
        assert not self.faults, "the witness found\n" + "\n".join(self.faults)


def _fails(reason: Reason) -> bool:
    return reason.is_fault and reason not in EXPECTED


@asynccontextmanager
async def witnessed(
    cluster: RestConfig, *, has_queues: bool, grace_s: float = GRACE_S
) -> AsyncIterator[Witnessed]:
    """Run the witness while the block lasts."""
    found = Witnessed()
    async with Client(cluster, random.Random(1), streams_lists=True) as client:
        options = Options(grace_s, INTERVAL_S, has_queues)
        running = asyncio.create_task(
            run_witness(client, WallClock(), options, lambda: found.resources, found.reported)
        )
        try:
            yield found
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@cache
def _background_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of a thread of its own that runs until the process ends: connections close in time."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="witness", daemon=True).start()
    return loop


@contextmanager
def witnessed_process(kubeconfig: Path) -> Iterator[None]:
    """Run the witness of a cluster in another process while the block lasts, which has to be faultless.

    The cluster may end first: a difference counts only if it lasted.
    """
    end = asyncio.Event()

    async def run() -> Witnessed:
        config = await load_rest_config(kubeconfig)
        async with Client(config, random.Random(1)) as client:
            has_queues = bool(await plural_of(client, WORKLOADS.api_version, WORKLOADS.kind))
        async with witnessed(config, has_queues=has_queues) as found:
            await end.wait()
        return found

    loop = _background_loop()
    running = asyncio.run_coroutine_threadsafe(run(), loop)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(end.set)
    faults = running.result(WITHIN_S).faults
    assert not faults, "the witness found\n" + "\n".join(faults)
