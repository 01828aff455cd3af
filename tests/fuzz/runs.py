"""One run of the fuzzer: attacks on a cluster, probes and observers, and what they found."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fuzz.attacks import attack
from tests.fuzz.cluster import ClusterOptions, Target, cluster_under_attack
from tests.fuzz.driver import Driver
from tests.fuzz.findings import Finding, Findings
from tests.fuzz.probe import Probe
from tests.fuzz.processes import ObservedProcess

SETTLE_ROUNDS: Final = 3  # of the probes after the last attack
GROWTH: Final = 1.5  # the memory at the end of a long run, relative to its first third
STORED_GROWTH: Final = 3.0  # likewise, of the server, which holds all objects that it stored until then
GROWTH_MB: Final = 60.0
DETAIL_CHARS: Final = 6000
ATTACKS: Final = 3  # shown with a finding
LONG_RUN: Final = 200  # samples of the memory


@dataclass
class Report:
    findings: Findings
    driver: Driver
    probe: Probe
    processes: list[ObservedProcess] = field(default_factory=list)


def numbers_of(seed: int, objects: int, first: int = 0) -> Iterator[int]:
    """Yield the numbers of as many attacks, from ``first`` on, as send ``objects`` objects."""
    sent = 0
    for number in itertools.count(first):
        if sent >= objects:
            return
        sent += attack(seed, number).objects
        yield number


def _ignore(objects: int) -> None:
    """Show no progress."""


async def run(
    findings: Findings,
    numbers: Iterable[int],
    options: ClusterOptions,
    directory: Path,
    advance: Callable[[int], None] = _ignore,
    objects_per_s: float = 50.0,
    deadline_s: float = 2.0,
) -> Report:
    async with cluster_under_attack(options, directory, findings) as target:
        probe = Probe(target.client, findings, deadline_s)
        driver = Driver(target, findings, objects_per_s)
        await _attack(target, driver, probe, numbers, advance)
        for process in target.processes:
            process.observe()
            _check_memory(process, findings)
        return Report(findings, driver, probe, target.processes)


async def _attack(
    target: Target, driver: Driver, probe: Probe, numbers: Iterable[int], advance: Callable[[int], None]
) -> None:
    observers = [asyncio.create_task(process.watch()) for process in target.processes]
    observers.append(asyncio.create_task(probe.run()))
    attacking = asyncio.create_task(_attack_and_settle(driver, probe, numbers, advance))
    try:
        await asyncio.wait([attacking, *observers], return_when=asyncio.FIRST_COMPLETED)
        for task in observers:
            if task.done():
                task.result()
        await attacking
    finally:
        for task in (attacking, *observers):
            task.cancel()
        await asyncio.gather(attacking, *observers, return_exceptions=True)


async def _attack_and_settle(
    driver: Driver, probe: Probe, numbers: Iterable[int], advance: Callable[[int], None]
) -> None:
    await probe.after(1)  # then the processes are ready
    probe.findings.by_cause.clear()  # of their start
    await driver.run(numbers, advance)
    await probe.after(SETTLE_ROUNDS)


def _check_memory(process: ObservedProcess, findings: Findings) -> None:
    samples = process.memory_mb
    if len(samples) < LONG_RUN:
        return
    third = len(samples) // 3
    before, after = max(samples[third // 2 : third]), min(samples[-third // 5 :])
    growth = STORED_GROWTH if process.name == "local" else GROWTH
    if after > before * growth and after > before + GROWTH_MB:
        findings.add("memory", f"{process.name} grows", f"from {before:.0f} to {after:.0f} MB")


def describe_finding(seed: int, found: Finding) -> str:
    """Return the finding, and the attacks that probably led to it with their objects as YAML."""
    lines = [f"{found.kind} ({found.count} times): {found.cause}", found.detail[:DETAIL_CHARS]]
    for number in found.attacks[:ATTACKS]:
        lines += [f"--- python -m tests.fuzz --seed {seed} --only {number}", attack(seed, number).describe()]
    return "\n".join(lines)
