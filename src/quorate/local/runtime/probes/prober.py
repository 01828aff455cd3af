"""Runs the probes of one running container."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from quorate.kube.clock import Clock
from quorate.local.runtime.pod_types import Probe
from quorate.local.runtime.probes.handlers import ProbeTarget, run_handler

Kind = Literal["Startup", "Liveness", "Readiness"]
KINDS: Final[tuple[Kind, ...]] = ("Startup", "Liveness", "Readiness")


@dataclass(frozen=True, slots=True)
class Health:
    """What probes and hooks say of a running container."""

    started: bool = True  # the startup probe has succeeded, and the postStart hook has ended
    ready: bool = True
    failure: str = ""  # why the container is to be stopped; restart policies decide what follows


@dataclass(frozen=True, slots=True)
class ProbeHistory:
    """The last results of one probe of one container."""

    succeeded: bool  # what the probe says; it changes only after the threshold of equal results
    last: bool | None = None
    count: int = 0  # of equal results in a row

    def after(self, probe: Probe, succeeded: bool) -> "ProbeHistory":
        """Return the history after one more result."""
        count = self.count + 1 if self.last is succeeded else 1
        threshold = probe.success_threshold if succeeded else probe.failure_threshold
        verdict = succeeded if count >= threshold else self.succeeded
        return ProbeHistory(verdict, succeeded, count)


class ContainerProber:
    """``health`` is what the probes say so far; ``on_change`` is called when it has changed.

    ``on_unhealthy`` gets the message of each failed probe.
    """

    def __init__(
        self,
        target: ProbeTarget,
        clock: Clock,
        started_at: float,
        on_change: Callable[[], None],
        on_unhealthy: Callable[[str], None],
    ) -> None:
        self._target = target
        self._clock = clock
        self._started_at = started_at
        self._on_change = on_change
        self._on_unhealthy = on_unhealthy
        container = target.container
        self.hook_ended = container.lifecycle.post_start is None
        self._started = container.startup_probe is None
        self._ready = container.readiness_probe is None
        self._failure = ""
        self._startup_passed = asyncio.Event()
        if self._started:
            self._startup_passed.set()

    @property
    def health(self) -> Health:
        return Health(self._started and self.hook_ended, self._ready, self._failure)

    def fail(self, message: str) -> None:
        """Let the container be stopped because of a failed hook."""
        self._failure = message
        self._on_change()

    async def run(self) -> None:
        """Probe until cancelled."""
        container = self._target.container
        probes = (container.startup_probe, container.liveness_probe, container.readiness_probe)
        async with asyncio.TaskGroup() as tasks:
            for kind, probe in zip(KINDS, probes, strict=True):
                if probe is not None:
                    tasks.create_task(self._repeat(kind, probe))

    async def _repeat(self, kind: Kind, probe: Probe) -> None:
        if kind != "Startup":
            await self._startup_passed.wait()
        history = ProbeHistory(succeeded=kind == "Liveness")
        await self._clock.sleep_until(self._started_at + probe.initial_delay_seconds)
        while True:
            result = await run_handler(probe, self._target, max(1, probe.timeout_seconds))
            if not result.succeeded:
                self._on_unhealthy(f"{kind} probe failed: {result.output}")
            history = history.after(probe, result.succeeded)
            self._apply(kind, probe, history)
            if kind == "Startup" and history.succeeded:
                return
            await asyncio.sleep(max(1, probe.period_seconds))

    def _apply(self, kind: Kind, probe: Probe, history: ProbeHistory) -> None:
        before = self.health
        name = self._target.container.name
        failed = history.last is False and history.count >= probe.failure_threshold
        match kind:
            case "Startup" if history.succeeded:
                self._started = True
                self._startup_passed.set()
            case "Readiness":
                self._ready = history.succeeded
            case _ if failed and not self._failure:
                self._failure = f"Container {name} failed {kind.lower()} probe, will be restarted"
        if self.health != before:
            self._on_change()
