"""Record the workloads of a scenario with a watch."""

import asyncio
from collections.abc import Callable

import msgspec

from bench.admission.objects import CLASS
from bench.worlds import World
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.informer import Change
from quorate.queueing import conditions as c

SAMPLE_EVERY_S = 1.0


class Record(msgspec.Struct):
    """The record of a run; times are seconds since its start."""

    wall_s: float = 0.0  # time at which the last workload was finished
    created_s: float = 0.0  # time at which the last workload was created
    workloads: int = 0
    finished: int = 0
    admissions: int = 0
    evictions: int = 0
    waits_s: dict[str, list[float]] = {}  # from creation to the first admission, by class
    in_use: list[float] = []  # reserved part of all quota, sampled every SAMPLE_EVERY_S


class Recorder:
    """Observe workload changes; ``done`` is set once all workloads of ``world`` have finished."""

    def __init__(self, world: World) -> None:
        self.record = Record(waits_s={class_.name: [] for class_ in world.classes})
        self.done = asyncio.Event()
        self._world = world
        self._cpus = {class_.name: class_.cpu for class_ in world.classes}
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._created: dict[Key, float] = {}  # first observation of each workload without admission
        self._reserved = 0  # cpus

    def begin(self) -> None:
        self._began = self._clock()

    def workload_changed(self, change: Change[Workload]) -> None:
        old, new = change.old, change.new
        if new is None:
            return
        record, key = self.record, new.metadata.key
        class_, now_s = new.metadata.labels[CLASS], self._clock() - self._began
        if old is None:
            record.workloads += 1
            record.created_s = now_s
            self._created[key] = now_s
        if c.is_admitted(new) and not (old is not None and c.is_admitted(old)):
            record.admissions += 1
            if key in self._created:
                record.waits_s[class_].append(now_s - self._created.pop(key))
        if c.is_evicted(new) and not (old is not None and c.is_evicted(old)):
            record.evictions += 1
        self._reserved += self._cpus[class_] * (_holds(new) - (old is not None and _holds(old)))
        if c.is_finished(new) and not (old is not None and c.is_finished(old)):
            record.finished += 1
            record.wall_s = now_s
            if record.finished == self._world.workloads:
                self.done.set()

    async def sample(self, on_sample: Callable[[Record], None]) -> None:
        """Sample the quota usage until all workloads have finished."""
        while not self.done.is_set():
            self.record.in_use.append(self._reserved / self._world.quota)
            on_sample(self.record)
            await asyncio.sleep(SAMPLE_EVERY_S)


def _holds(workload: Workload) -> bool:
    return c.has_quota_reservation(workload) and not c.is_finished(workload)
