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
from quorate.local.runtime.configuration import ERROR_FILE, KubeletConfiguration
from quorate.local.runtime.containers.processes import end_processes
from quorate.local.runtime.network.namespaces import end_namespaces

RESTART: Final = Backoff(first_s=0.2, cap_s=10.0)
STABLE_S: Final = 60.0
STARTS: Final = 3  # of a kubelet that never registers its node
STOP_S: Final = 12.0
DIRECTORY: Final = "runtime"  # in that of the cluster


@dataclass(frozen=True, slots=True)
class ProcessRuntime:
    """The options of the node of this machine: its name, resources and images."""

    node_name: str
    resources: Mapping[str, str] = field(default_factory=dict)  # instead of what the machine has
    images: Mapping[str, Path] = field(default_factory=dict)


class KubeletFailed(Exception):
    """The kubelet ended again and again before it had registered its node."""

    def __init__(self, node: str, code: int, reason: str) -> None:
        super().__init__(node, code, reason)
        self.node, self.code, self.reason = node, code, reason

    def __str__(self) -> str:
        ended = f"the kubelet ended {STARTS} times before it registered the node"
        return f"node {self.node}: {ended}, exit code {self.code}: {self.reason}"


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


async def run_kubelet(
    directory: Path, runtime: ProcessRuntime, clock: Clock, registered: asyncio.Event
) -> None:
    """Keep the kubelet running until cancelled; then let it end all containers and itself.

    Raises ``KubeletFailed`` if it has ended ``STARTS`` times and ``registered``, of its node, is not set.
    """
    path = configuration_of(directory, runtime).write()
    error_file = path.with_name(ERROR_FILE)
    steady, failures = clock.steady, 0
    try:
        while True:
            began = steady.now()
            error_file.unlink(missing_ok=True)
            code = await _run_once(path)
            failures = 1 if steady.now() - began >= STABLE_S else failures + 1
            restart_in_s = RESTART.delay_s(failures)
            logger(__name__).warning("kubelet has ended", code=code, restart_in_s=restart_in_s)
            if failures >= STARTS and not registered.is_set():
                reason = error_file.read_text() if error_file.exists() else "it has logged no exception"
                raise KubeletFailed(runtime.node_name, code, reason)
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
