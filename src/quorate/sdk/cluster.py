"""A cluster behind a kubeconfig: apply, read, delete and await objects."""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final

from quorate.api import codec
from quorate.api.explanation import state_text
from quorate.api.meta import Key
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.suggestions import suggestion
from quorate.controllers.integrations import INTEGRATIONS
from quorate.inspect.awaited_conditions import CREATED, describe, ending, predicate
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import OfJob, OfWorkload, Target, named_targets
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound, RequestFailed
from quorate.kube.named_kinds import find_kind
from quorate.kube.resources import (
    LOCAL_QUEUES,
    NAMESPACES,
    POD_GROUPS,
    VOLCANO_JOBS,
    WORKLOADS,
    Json,
    Resource,
)
from quorate.kube.rest.config import load_rest_config
from quorate.processes.local.apply import apply_manifests
from quorate.processes.local.manifests import Manifest, read_manifest_text, read_manifests
from quorate.queueing.conditions import is_finished
from quorate.sdk.blocking import run_blocking
from quorate.sdk.results import NO_EXPLANATIONS, Ended, Explanations

Manifests = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
POLL_S: Final = (0.05, 0.5)  # the first pause, and the longest
EXPLAINED_WITHIN_S: Final = 10.0  # why an object has not started, after a timeout


# Jobs as users name them, such as ``job.batch``, by apiVersion and kind.
_JOB_KINDS: Final = {
    (kind.api_version, kind.kind): f"{kind.kind.lower()}.{kind.group}".rstrip(".")
    for kind in (row.resource for row in INTEGRATIONS.values())
}


_EXPLAINED_KINDS: Final = {
    *_JOB_KINDS,
    *((kind.api_version, kind.kind) for kind in (WORKLOADS, POD_GROUPS, VOLCANO_JOBS)),
}


class UnknownKind(LookupError):
    """The cluster serves no kind of that name."""

    def __init__(self, kind: str, server: str) -> None:
        super().__init__(kind, server)
        self.kind, self.server = kind, server

    def __str__(self) -> str:
        return f"{self.server} serves no kind {self.kind!r} (kubectl api-resources lists them)"


class UnknownQueue(LookupError):
    """A job names a LocalQueue that its namespace does not have; ``names`` are the existing LocalQueues."""

    def __init__(self, queue: str, namespace: str, names: tuple[str, ...]) -> None:
        super().__init__(queue, namespace, names)
        self.queue, self.namespace, self.names = queue, namespace, names

    def __str__(self) -> str:
        hint = suggestion(self.queue, self.names) or f" (there are: {', '.join(self.names) or 'none'})"
        return f"no local queue {self.queue!r} in namespace {self.namespace}{hint}"


class NotWithin(TimeoutError):
    """An object did not reach a state in time.

    ``last`` is the object as it was read last, or None.  ``explanations`` say why it has not started; there
    are none of an object that is not queued, or if it was not explained.
    """

    def __init__(
        self,
        what: str,
        awaited: str,
        within_s: float,
        last: Json | None,
        explanations: Explanations = NO_EXPLANATIONS,
    ) -> None:
        super().__init__(what, awaited, within_s, last, explanations)
        self.what, self.awaited, self.within_s, self.last = what, awaited, within_s, last
        self.explanations = explanations

    def __str__(self) -> str:
        lines = [f"{self.what}: not {self.awaited} within {self.within_s:g} s: {describe(self.last)}"]
        for explanation in self.explanations:
            lines.append(state_text(explanation))
            if explanation.planned_start is not None:
                lines.append(explanation.planned_start.text)
            lines += [f"- {enough}" for enough in explanation.enough]
        return "\n".join(lines)


class JobFailed(RuntimeError):
    """A job that had to succeed has failed; ``ended`` says how, with the explanations."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended)
        self.ended = ended

    def __str__(self) -> str:
        states = map(state_text, self.ended.explanations)
        return "\n".join((f"{self.ended.job} failed: {self.ended.message}", *states))


@dataclass(frozen=True)
class Cluster:
    """A cluster and a namespace in it.

    Without a kubeconfig, the one of kubectl is used: $KUBECONFIG, ~/.kube/config, or the service account of a
    pod.  Each call connects anew, so a ``Cluster`` needs no closing and may be used from several threads.
    Calls raise ``quorate.kube.errors.ApiError`` for a refusal and ``Unreachable`` if there is no answer.
    """

    kubeconfig: str | Path | None = None
    context: str = ""
    namespace: str = ""  # empty: that of the context

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process with KUBECONFIG, for commands such as kubectl."""
        if self.kubeconfig is None:
            return dict(os.environ)
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def in_namespace(self, name: str, *, labels: Mapping[str, str] | None = None) -> "Cluster":
        """Create the namespace if it is absent, and return the cluster with it as the default."""
        content = {"metadata": {"labels": dict(labels or {})}}

        async def create() -> None:
            async with self.connect() as (client, _):
                await client.apply(NAMESPACES, Key("", name), content)

        run_blocking(create)
        return replace(self, namespace=name)

    def apply(self, manifests: Manifests) -> tuple[Json, ...]:
        """Apply manifests as ``kubectl apply --server-side`` does, and return the objects as stored.

        ``manifests`` is YAML or JSON text, a path of a file or directory, or objects; text without a colon is
        a path.  What others refer to comes first: namespaces, definitions, flavors, queues.  Raises
        ``InvalidFiles`` with all refusals.
        """
        objects = _manifests(manifests)

        async def apply() -> tuple[Json, ...]:
            async with self.connect() as (client, namespace):
                return await apply_manifests(client, objects, namespace)

        return run_blocking(apply)

    def get(self, kind: str, name: str, *, namespace: str = "") -> Json:
        """Return an object; ``kind`` as in kubectl: ``job``, ``workloads``, ``deployment.apps``.

        Raises ``NotFound`` and ``UnknownKind``.
        """

        async def get() -> Json:
            async with self.connect() as (client, own):
                resource = await _resource(client, kind)
                return await client.get(resource, _key(resource, namespace or own, name))

        return run_blocking(get)

    def list(self, kind: str, *, namespace: str = "", label_selector: str = "") -> tuple[Json, ...]:
        """Return the objects of a kind in the namespace, or in the cluster if the kind has no namespaces."""

        async def list_() -> tuple[Json, ...]:
            async with self.connect() as (client, own):
                resource = await _resource(client, kind)
                where = (namespace or own) if resource.namespaced else ""
                return (await client.list(resource, where, label_selector)).items

        return run_blocking(list_)

    def delete(self, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object, and in the background the objects that it owns.  Raises ``NotFound``."""

        async def delete() -> None:
            async with self.connect() as (client, own):
                resource = await _resource(client, kind)
                await client.delete(
                    resource, _key(resource, namespace or own, name), propagation="Background"
                )

        run_blocking(delete)

    def wait_for(
        self,
        kind: str,
        name: str,
        condition: str | Callable[[Json], object] = CREATED,
        timeout: float = 60.0,
        *,
        namespace: str = "",
    ) -> Json | None:
        """Return the object once it meets the condition; None if that is ``delete``.

        The condition is ``Complete`` (one with status True), ``Ready=False``, ``status.phase=Running``,
        ``create``, ``delete``, or a function of the object.  An object that does not exist yet is awaited.
        Raises ``NotWithin``, a ``TimeoutError``, with the state of the object after ``timeout`` seconds.
        """
        wanted = predicate(condition)
        awaited = condition if isinstance(condition, str) else "as asked"

        async def wait() -> Json | None:
            deadline = monotonic() + timeout
            async with self.connect() as (client, own):
                resource: Resource[Json] | None = None
                pause_s, longest_s = POLL_S
                while True:
                    resource = resource or await find_kind(client, kind)
                    if resource is not None:
                        last = await client.find(resource, _key(resource, namespace or own, name))
                        if wanted(last):
                            return last
                    left_s = deadline - monotonic()
                    if left_s <= 0:
                        break
                    await asyncio.sleep(min(pause_s, left_s))
                    pause_s = min(pause_s * 1.5, longest_s)
                if resource is None:
                    raise UnknownKind(kind, client.config.server)
                explanations = await _explained(client, namespace or own, resource, name)
                raise NotWithin(f"{kind}/{name}", awaited, timeout, last, explanations)

        return run_blocking(wait)

    def submit(self, manifests: Manifests, *, queue: str = "", namespace: str = "") -> tuple[str, ...]:
        """Apply manifests and return the jobs among them, as ``KIND.GROUP/NAME``.

        ``queue`` is the LocalQueue of all jobs that name none.  Raises ``UnknownQueue`` for one that is
        neither in the cluster nor among the manifests, and ``InvalidFiles`` with all refusals.
        """
        objects = _manifests(manifests)
        if queue:
            set_default_queue(objects, queue)

        async def submit() -> tuple[str, ...]:
            async with self.connect() as (client, own):
                await check_queues(client, objects, namespace or own)
                stored = await apply_manifests(client, objects, namespace or own)
            kinds = [(obj["apiVersion"], obj["kind"]) for obj in stored]
            return tuple(
                f"{_JOB_KINDS[kind]}/{obj['metadata']['name']}"
                for kind, obj in zip(kinds, stored, strict=True)
                if kind in _JOB_KINDS
            )

        return run_blocking(submit)

    def wait(self, job: str, timeout: float = 3600.0, *, namespace: str = "", check: bool = False) -> Ended:
        """Return how a job ended, once it has; ``job`` is ``KIND/NAME``, such as ``job/train``.

        Raises ``NotWithin``, a ``TimeoutError``, after ``timeout`` seconds, and with ``check`` ``JobFailed``
        for a job that has failed.
        """
        kind, slash, name = job.rpartition("/")
        if not slash:
            raise ValueError(f"{job!r} is no job (write KIND/NAME, such as job/train)")
        obj = self.wait_for(kind, name, lambda obj: ending(obj) is not None, timeout, namespace=namespace)
        outcome = ending(obj)
        assert outcome is not None, "what was awaited"
        succeeded, message = outcome
        explanations = NO_EXPLANATIONS if succeeded else self._explained(kind, name, namespace)
        ended = Ended(job, succeeded, message, explanations)
        if check and not succeeded:
            raise JobFailed(ended)
        return ended

    def _explained(self, kind: str, name: str, namespace: str) -> Explanations:
        async def explain() -> Explanations:
            async with self.connect() as (client, own):
                return await _explained(client, namespace or own, await _resource(client, kind), name)

        return run_blocking(explain)

    def explain(self, *names: str, namespace: str = "") -> Explanations:
        """Return why workloads, jobs, pods or queues are in their state, and what would let them start.

        A name is a workload, or ``KIND/NAME`` of another object; a job may have several workloads.
        Without names all workloads of the namespace that have not finished are explained.
        The controllers answer; without their answer this process evaluates the cluster by their rules.
        """

        async def explain() -> Explanations:
            async with self.connect() as (client, own):
                connection = Connection(client, namespace or own)
                answers = Answers(connection, None)
                targets: list[Target] = [
                    target for name in names for target in await named_targets(connection, name)
                ]
                if not names:
                    workloads = (await client.list(WORKLOADS, connection.namespace)).items
                    targets = [OfWorkload(workload) for workload in workloads if not is_finished(workload)]
                return Explanations([await answers.of(target) for target in targets])

        return run_blocking(explain)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Client, str]]:
        """Connect while the block lasts; yield the client and the namespace."""
        path = None if self.kubeconfig is None else Path(self.kubeconfig)
        config = await load_rest_config(path, self.context)
        async with Client(config, random.Random(), field_manager="quorate-python") as client:
            yield client, self.namespace or config.namespace


def set_default_queue(manifests: Sequence[Manifest], queue: str) -> None:
    """Set the LocalQueue of the jobs that name none, unless the API server refuses their labels."""
    for manifest in manifests:
        metadata = manifest.body["metadata"]
        labels = metadata.get("labels") or {}
        if (manifest.api_version, manifest.kind) in _JOB_KINDS and isinstance(labels, dict):
            metadata["labels"] = {QUEUE_NAME: queue, **labels}


async def check_queues(client: Client, objects: Sequence[Manifest], namespace: str) -> None:
    """Raise ``UnknownQueue`` if a job names a queue that neither exists nor is applied with it."""
    own = defaultdict[str, set[str]](set)  # queues among the manifests, by namespace
    named = dict[tuple[str, str], None]()
    for manifest in objects:
        kind, where = (manifest.api_version, manifest.kind), manifest.namespace or namespace
        labels = manifest.body["metadata"].get("labels")
        if manifest.kind == LOCAL_QUEUES.kind and manifest.api_version.startswith(f"{LOCAL_QUEUES.group}/"):
            own[where].add(manifest.name)
        elif kind in _JOB_KINDS and isinstance(labels, dict):
            queue = labels.get(QUEUE_NAME)
            if queue and isinstance(queue, str):  # the API server refuses other values
                named[where, queue] = None
    for where, queue in named:
        if queue in own[where]:
            continue
        try:
            listed = (await client.list(LOCAL_QUEUES, where)).items
        except (Forbidden, NotFound):  # the controllers say later if there is none
            continue
        names = tuple(local_queue.metadata.name for local_queue in listed)
        if queue not in names:
            raise UnknownQueue(queue, where, names)


async def _explained(client: Client, namespace: str, resource: Resource[Json], name: str) -> Explanations:
    """Return the explanations of an object that may be queued; none if it is not, or they cannot be had."""
    if (resource.api_version, resource.kind) not in _EXPLAINED_KINDS:
        return NO_EXPLANATIONS
    connection = Connection(client, namespace)
    kind = f"{resource.plural}.{resource.group}".rstrip(".")
    try:
        async with asyncio.timeout(EXPLAINED_WITHIN_S):
            targets = await named_targets(connection, f"{kind}/{name}")
            answers = Answers(connection, None)
            return Explanations(
                [await answers.of(target) for target in targets if not isinstance(target, OfJob)]
            )
    except (RequestFailed, UsageError, TimeoutError):
        return NO_EXPLANATIONS


async def _resource(client: Client, kind: str) -> Resource[Json]:
    resource = await find_kind(client, kind)
    if resource is None:
        raise UnknownKind(kind, client.config.server)
    return resource


def _key(resource: Resource[Json], namespace: str, name: str) -> Key:
    return Key(namespace if resource.namespaced else "", name)


def _manifests(manifests: Manifests) -> tuple[Manifest, ...]:
    match manifests:
        case Path():
            return read_manifests(manifests)
        case str() if ":" not in manifests:
            return read_manifests(Path(manifests))
        case str():
            return read_manifest_text(manifests, "manifests")
        case Mapping():
            return read_manifest_text(codec.encode(manifests).decode(), "manifests")
    text = "\n---\n".join(codec.encode(manifest).decode() for manifest in manifests)
    return read_manifest_text(text, "manifests")
