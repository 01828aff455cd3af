"""One object of a manifest file, as it was written."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from quorate.api.decoding.documents import Document
from quorate.api.findings import Finding
from quorate.kube.patches import merged


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object, its file, and the identifying fields, which were checked to be text."""

    file: Path
    document: Document
    api_version: str
    kind: str
    namespace: str  # as written; empty when not given
    name: str  # empty when the server is to generate it

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = self.document.value
        return body

    @property
    def effective_namespace(self) -> str:
        """Return the namespace that the object gets if its kind is namespaced."""
        return self.namespace or "default"

    def __str__(self) -> str:
        """Return ``jobs.yaml:12: Job job1``, the beginning of a message about it."""
        name = self.name or self.body["metadata"]["generateName"]
        return f"{self.file}:{self.document.lines['kind']}: {self.kind} {name}"


def with_scheduler(manifest: Manifest, name: str) -> Manifest:
    """Return the manifest with ``schedulerName: name`` in the pod template if it is a Job."""
    if manifest.kind != "Job":
        return manifest
    body = merged(manifest.body, {"spec": {"template": {"spec": {"schedulerName": name}}}})
    return replace(manifest, document=msgspec.structs.replace(manifest.document, value=body))


def document_finding(document: Document, path: str, value: object, rule: str) -> Finding:
    """Return a finding with the line of ``path``, or of its nearest parent that is present."""
    near = path
    while near and near not in document.lines:
        near = near[: max(near.rfind("."), near.rfind("["), 0)]
    return Finding(path, value, rule, document.lines[near])
