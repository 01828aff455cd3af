"""Runs the kubelet process of a local cluster, and starts it again when it has ended."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorate.kube.clock import Clock
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.local.runtime.configuration import KubeletConfiguration
from quorate.local.runtime.containers.processes import end_processes
from quorate.local.runtime.network.node_namespaces import end_namespaces

RESTART: Final = Backoff(first_s=0.2, cap_s=10.0)
STABLE_S: Final = 60.0
STOP_S: Final = 12.0
DIRECTORY: Final = "runtime"  # in that of the cluster


@dataclass(frozen=True, slots=True)
class ProcessRuntime:
    """The options of the node of this machine: its name, resources and images."""

    node_name: str
    resources: Mapping[str, str] = field(default_factory=dict)  # instead of what the machine has
    images: Mapping[str, Path] = field(default_factory=dict)


def configuration_of(directory: Path, runtime: ProcessRuntime) -> KubeletConfiguration:
    """Return the configuration of the kubelet of the cluster in ``directory``."""
    return KubeletConfiguration(
        kubeconfig=str(directory / "kubeconfig"),
        authority=str(directory / "ca.crt"),
        state=str(directory / DIRECTORY),
        node_name=runtime.node_name,
        home=str(Path.home()),
        resources=dict(runtime.resources),
        images={name: str(path) for name, path in runtime.images.items()},
    )


async def run_kubelet(directory: Path, runtime: ProcessRuntime, clock: Clock) -> None:
    """Keep the kubelet running until cancelled; then let it end all containers and itself."""
    path = configuration_of(directory, runtime).write()
    steady, failures = clock.steady, 0
    try:
        while True:
            began = steady.now()
            code = await _run_once(path)
            failures = 1 if steady.now() - began >= STABLE_S else failures + 1
            restart_in_s = RESTART.delay_s(failures)
            logger(__name__).warning("kubelet has ended", code=code, restart_in_s=restart_in_s)
            await steady.sleep_until(steady.now() + restart_in_s)
    finally:
        await asyncio.to_thread(end_runtime, directory)  # of a kubelet that was killed


async def _run_once(path: Path) -> int:
    """Return the exit code of a kubelet process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "quorate.local.runtime", path,
        stdin=asyncio.subprocess.PIPE,  # its end says that this process has ended
        start_new_session=True,
    )  # fmt: skip
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_S):
                    await process.wait()
            except TimeoutError:
                process.kill()


def end_runtime(directory: Path) -> int:
    """End the containers and namespaces of a stopped cluster; return how many containers ran."""
    ended = end_processes(directory / DIRECTORY)
    end_namespaces(directory / DIRECTORY)
    return ended


def delete_runtime(directory: Path) -> None:
    """End the containers and namespaces of a stopped cluster, and delete the files of its kubelet."""
    end_runtime(directory)
    shutil.rmtree(directory / DIRECTORY, ignore_errors=True)
