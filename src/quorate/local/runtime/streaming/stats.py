"""What the containers of the node use: the content of a kubelet's /stats/summary."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.api.codec import Json
from quorate.api.meta import Key
from quorate.local.runtime.containers.processes import marked_processes, stat_fields
from quorate.local.runtime.containers.running import PAUSE, PodIndex

Container = tuple[str, str]  # the uid of the pod and the name of the container

NANOS: Final = 10**9
SHORTEST_WINDOW_S: Final = 1.0
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
USER_TIME, START_TIME = 11, 19  # fields of /proc/PID/stat after the name; four times follow each other


@dataclass(frozen=True, slots=True)
class Sample:
    """What the processes of a container have used, and use."""

    at_s: float  # since the boot of the machine
    cpu_s: float
    memory_bytes: int
    started_s: float

    def cores_since(self, earlier: "Sample | None") -> float:
        """Return the processors that were in use since an earlier sample, or since the start without one."""
        begin_s, begin_cpu_s = (self.started_s, 0.0) if earlier is None else (earlier.at_s, earlier.cpu_s)
        return max(self.cpu_s - begin_cpu_s, 0.0) / max(self.at_s - begin_s, 1 / TICKS_PER_S)


class UsageStatistics:
    """Measures the use of containers at each request; rates are since the measurement before."""

    def __init__(self, state: Path, pods: PodIndex) -> None:
        self._state = state
        self._pods = pods
        self._samples: Mapping[Container, Sample] = {}
        self._cores: dict[Container, float] = {}

    async def summary(self) -> Json:
        samples = await asyncio.to_thread(measure, self._state)
        if not self._is_fresh(samples):
            earlier, self._samples = self._samples, samples
            self._cores = {one: sample.cores_since(earlier.get(one)) for one, sample in samples.items()}
        pods: dict[Key, Json] = {}
        for (uid, name), sample in sorted(self._samples.items()):
            key = self._pods.pod_key(uid)
            if key is not None and name != PAUSE:
                reference = {"name": key.name, "namespace": key.namespace, "uid": uid}
                pod = pods.setdefault(key, {"podRef": reference, "containers": []})
                pod["containers"].append(self._container(uid, name, sample))
        return {"pods": list(pods.values())}

    def _is_fresh(self, samples: Mapping[Container, Sample]) -> bool:
        """Return True if the last measurement is too recent for a rate, and of the same containers."""
        if samples.keys() != self._samples.keys():
            return False
        return all(
            sample.at_s - self._samples[one].at_s < SHORTEST_WINDOW_S for one, sample in samples.items()
        )

    def _container(self, uid: str, name: str, sample: Sample) -> Json:
        cpu = {
            "usageNanoCores": int(self._cores[uid, name] * NANOS),
            "usageCoreNanoSeconds": int(sample.cpu_s * NANOS),
        }
        return {"name": name, "cpu": cpu, "memory": {"workingSetBytes": sample.memory_bytes}}


def measure(state: Path) -> dict[Container, Sample]:
    """Return a sample of each container of the kubelet with this state directory."""
    now_s = float(Path("/proc/uptime").read_text().split()[0])
    samples: dict[Container, Sample] = {}
    for (uid, container, _), pids in marked_processes(state).items():
        cpu_s, private, shared, started_s = 0.0, 0, 0, now_s
        for pid in pids:
            try:
                fields = stat_fields(pid)
                _, resident, shared_pages, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
            except (OSError, ValueError):
                continue  # it has ended
            # With the time of children that have ended, so that the sum does not decrease.
            cpu_s += sum(map(int, fields[USER_TIME : USER_TIME + 4])) / TICKS_PER_S
            private += resident - shared_pages
            shared = max(shared, shared_pages)
            started_s = min(started_s, int(fields[START_TIME]) / TICKS_PER_S)
        samples[uid, container] = Sample(now_s, cpu_s, (private + shared) * PAGE_BYTES, started_s)
    return samples
