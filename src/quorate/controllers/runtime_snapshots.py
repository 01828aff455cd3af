"""The runtimes of TrainJobs as the trainer stored them.

The trainer (since 2.3) writes the runtime of a job into a ConfigMap when it first sees the job, and makes all
pods of that: a later change or deletion of the runtime concerns new jobs only.
"""

from typing import Any, Final

from quorate.api.decoding.documents import InvalidYaml, read_documents
from quorate.api.field_path import look_up
from quorate.api.interning import ContentCache
from quorate.api.meta import Key, Uid
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.kube.client import Client
from quorate.kube.resources import CONFIG_MAPS, Json

_SUFFIX: Final = "-runtime-snapshot"  # of the name of the job
_RUNTIME: Final = "runtime"
_MOST_JOBS: Final = 10_000  # with a remembered snapshot; equal snapshots take memory once


class RuntimeSnapshots:
    """Reads the snapshots, each once: a snapshot never changes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._specs: dict[Uid, Json] = {}
        self._equal: ContentCache[Json] = ContentCache(entries=64, size_bytes=2**22)

    async def of(self, job: UnstructuredJob) -> Json | None:
        """Return the spec of the runtime of ``job``; None if there is no snapshot that can be read."""
        uid = job.metadata.uid
        if uid in self._specs:
            return self._specs[uid]
        key = Key(job.metadata.namespace, f"{job.metadata.name}{_SUFFIX}")
        stored = await self._client.find(CONFIG_MAPS, key)
        owner = None if stored is None else stored.metadata.controller
        if stored is None or owner is None or owner.uid != uid:
            return None
        text = stored.data.get(_RUNTIME, "")
        spec = self._equal.get_or(text.encode(), lambda: _spec_of(text))
        if not spec:
            return None
        if len(self._specs) >= _MOST_JOBS:
            self._specs.clear()
        self._specs[uid] = spec
        return spec


def _spec_of(text: str) -> Json:
    """Return the spec of the object in ``text``; empty if there is none."""
    try:
        documents: list[Any] = [document.value for document in read_documents(text)]
    except InvalidYaml:
        return {}
    spec = look_up(documents[0], ("spec",)) if len(documents) == 1 else None
    return spec if isinstance(spec, dict) else {}
