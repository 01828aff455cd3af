"""What long-running processes have in common: cluster access, identity, signals, garbage collection."""

import asyncio
import gc
import platform
import random
import resource
import signal
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.inspect.errors import UsageError
from quorate.kube.discovery import served_resources
from quorate.kube.log import logger
from quorate.kube.resources import Resource
from quorate.kube.rest.config import load_rest_config

if TYPE_CHECKING:
    from quorate.kube.client import Client

T = TypeVar("T")

# The second generation has 80,000 new objects at most, which take some 7 ms; 300,000 took 25 ms on an idle
# machine and 97 ms on a busy one. A full collection comes after 24 million new objects.
_GC_THRESHOLDS: Final = (20_000, 2, 400)


def tune_garbage_collection() -> None:
    """Raise the garbage collection threshold from 700 to 20,000 new objects.

    For processes that hold a large cluster in memory and receive thousands of objects a second, none of them
    in a reference cycle: the collector took a seventh of their time.
    """
    gc.set_threshold(*_GC_THRESHOLDS)


def raise_file_limit() -> None:
    """Allow as many open files as the system permits, so that clients cannot use up the descriptors."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some platforms refuse their own maximum
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def require_served(client: "Client", kinds: Sequence[Resource[Any]], definitions: str = "crds") -> None:
    """Raise ``UsageError`` if the cluster does not serve one of ``kinds``, instead of waiting silently.

    All ``kinds`` are of one version.  ``definitions``: their directory below the output of ``quorate crds``.
    """
    api_version = kinds[0].api_version
    served = {listed.name for listed in await served_resources(client, api_version)}
    missing = [kind.plural for kind in kinds if kind.plural not in served]
    if missing:
        raise UsageError(
            f"{client.config.server} does not serve {', '.join(missing)} of {api_version} "
            f"(install the definitions: quorate crds --output crds, then "
            f"kubectl apply --server-side -f {definitions})"
        )


def election_client(kubeconfig: Path | None, context: str) -> Callable[[], Coroutine[None, None, "Client"]]:
    """Return how to connect a client for leader election; its credentials belong to its event loop."""

    from quorate.kube.client import Client

    async def connect() -> Client:
        return Client(await load_rest_config(kubeconfig, context), random.Random())

    return connect


def new_identity() -> str:
    """Return an identity for leader election, unique across machines."""
    return f"{platform.node()}_{new_uid()}"


def new_uid() -> str:
    return str(uuid.uuid4())  # noqa: TID251  the one source of identity of all processes


async def run_until_stopped(server: str, *parts: Coroutine[None, None, None]) -> None:
    """Run ``parts`` of a process with the cluster of ``server`` until a signal to stop."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part) for part in parts]
        await wait_for_signal(lambda: logger(__name__).info("starting", server=server))
        logger(__name__).info("stopping")
        for task in running:
            task.cancel()


async def wait_for_signal(announce: Callable[[], None]) -> None:
    """Return at a signal to stop; call ``announce`` once the handlers are installed."""
    stopped = asyncio.Event()
    _on_signal(stopped.set)
    announce()
    await stopped.wait()


async def run_until_signal(work: Coroutine[None, None, T]) -> T:
    """Return the result of ``work``; cancel it at a signal to stop."""
    task = asyncio.ensure_future(work)
    _on_signal(task.cancel)
    return await task


def _on_signal(stop: Callable[[], object]) -> None:
    """Call ``stop`` at SIGINT, SIGTERM and the end of the terminal, unless nohup has that ignored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop)
