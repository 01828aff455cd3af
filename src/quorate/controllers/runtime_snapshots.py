"""The runtimes of TrainJobs as the trainer stored them.

The trainer (since 2.3) writes the runtime of a job into a ConfigMap when it first sees the job, and makes all
pods of that: a later change or deletion of the runtime concerns new jobs only.
"""

from typing import Any, Final

from quorate.api.decoding.documents import InvalidYaml, read_documents
from quorate.api.field_path import look_up
from quorate.api.interning import ContentCache
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.client import Client
from quorate.kube.resources import CONFIG_MAPS, Json

_SUFFIX: Final = "-runtime-snapshot"  # of the name of the job
_RUNTIME: Final = "runtime"
_MOST_JOBS: Final = 10_000  # with a remembered answer; equal snapshots take memory once

_Versions = tuple[str, tuple[Uid, int] | None]  # of a job, and of its runtime


class RuntimeSnapshots:
    """Reads the snapshots, each once: a snapshot never changes.

    A job without a snapshot is looked up again when the job or its runtime has changed: the trainer changes
    the status of a job after it has stored the snapshot, and a snapshot of an unchanged runtime equals it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[Uid, tuple[_Versions, Json | None]] = {}
        self._equal: ContentCache[Json] = ContentCache(entries=64, size_bytes=2**22)

    async def of(self, job: UnstructuredJob, runtime: UnstructuredJob | None) -> Json | None:
        """Return the spec of the stored runtime of ``job``; None if there is no snapshot that can be read.

        ``runtime``: the object that the job names; None if it does not exist.
        """
        metadata = job.metadata
        versions = (
            metadata.resource_version,
            None if runtime is None else (runtime.metadata.uid, runtime.metadata.generation),
        )
        earlier, spec = self._answers.get(metadata.uid, (None, None))
        if spec is None and earlier != versions:
            spec = await self._stored_spec(metadata)
            if len(self._answers) >= _MOST_JOBS:
                self._answers.clear()
            self._answers[metadata.uid] = (versions, spec)
        return spec

    async def _stored_spec(self, job: ObjectMeta) -> Json | None:
        stored = await self._client.find(CONFIG_MAPS, Key(job.namespace, f"{job.name}{_SUFFIX}"))
        owner = None if stored is None else stored.metadata.controller
        if stored is None or owner is None or owner.uid != job.uid:
            return None
        text = stored.data.get(_RUNTIME, "")
        return self._equal.get_or(text.encode(), lambda: _spec_of(text)) or None


def _spec_of(text: str) -> Json:
    """Return the spec of the object in ``text``; empty if there is none."""
    try:
        documents: list[Any] = [document.value for document in read_documents(text)]
    except InvalidYaml:
        return {}
    spec = look_up(documents[0], ("spec",)) if len(documents) == 1 else None
    return spec if isinstance(spec, dict) else {}
