"""Read the manifests of a directory, check them without a server and put them in the order to apply them.

Two kinds of document are not applied: a ``Configuration`` of the controllers (chosen with ``--config``)
and the description of the cluster to run on (see ``cluster_description``).  The server checks what only a
server can know, such as whether it serves a kind.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from quorate.api import configuration
from quorate.api.decoding.documents import Document, InvalidYaml, read_documents
from quorate.api.findings import Finding, child_path
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.api.validation import manifest_findings
from quorate.cli.files import InvalidFiles, compiler_lines
from quorate.cli.run import cluster_description
from quorate.cli.run.cluster_description import ClusterDescription, read_description
from quorate.cli.run.manifest import Manifest, document_finding
from quorate.cli.run.references import unknown_references

# Referenced kinds come first: a reference to a missing object is refused, or decides something too early.
_FIRST: Final = (
    "Namespace", "CustomResourceDefinition", "PriorityClass", "RuntimeClass", "WorkloadPriorityClass",
    "ResourceFlavor", "Topology", "AdmissionCheck", "Cohort", "ClusterQueue", "LocalQueue",
    "LimitRange", "ResourceQuota", "ServiceAccount", "ConfigMap", "Secret", "Service",
)  # fmt: skip

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_QUANTITIES: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")
_QUANTITY_MAPS: Final = ("requests", "limits")


@dataclass(frozen=True, slots=True)
class Manifests:
    objects: tuple[Manifest, ...]  # in the order to apply them; jobs last, in the order of their files
    cluster_description: ClusterDescription


def read_directory(directory: Path) -> Manifests:
    """Read every ``*.yaml``, ``*.yml`` and ``*.json`` of a directory, without its subdirectories.

    Raises ``InvalidFiles`` with all findings, each as ``file:line: path: value rule``.
    """
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
        texts = [(path, path.read_bytes()) for path in paths]
    except OSError as error:
        raise InvalidFiles([f"{error.filename}: {(error.strerror or '').lower()}"]) from error
    findings: list[str] = []
    descriptions: list[ClusterDescription] = []
    manifests: list[Manifest] = []
    for path, text in texts:
        try:
            documents = read_documents(text.decode())
        except InvalidYaml as error:
            findings.append(f"{path}:{error.line}: {error.problem}")
            continue
        except UnicodeDecodeError as error:
            findings.append(f"{path}:1: byte {error.start} is not UTF-8 (save the file as UTF-8)")
            continue
        for document in documents:
            what, wrong = _read(path, document)
            findings += compiler_lines(path, wrong)
            if isinstance(what, ClusterDescription):
                descriptions.append(what)
            elif what is not None:
                manifests.append(what)
    for manifest in manifests:
        findings += compiler_lines(manifest.file, unknown_references(manifest, manifests))
    if len(descriptions) > 1:
        findings.append(f"{directory}: describes {len(descriptions)} clusters (keep one)")
    if not manifests and not findings:
        findings.append(f"{directory}: holds no manifest (looked for *{', *'.join(_SUFFIXES)})")
    if findings:
        raise InvalidFiles(findings)
    return Manifests(
        tuple(sorted(manifests, key=_rank)), descriptions[0] if descriptions else ClusterDescription()
    )


def _read(path: Path, document: Document) -> tuple[Manifest | ClusterDescription | None, list[Finding]]:
    """Return the content of one document (None if it is not to be applied) and the findings about it."""
    value = document.value
    if not isinstance(value, dict):
        return None, [
            document_finding(document, "", value, "is no object (write apiVersion, kind and metadata)")
        ]
    api_version = value.get("apiVersion")
    if api_version == cluster_description.API_VERSION:
        return read_description(document)
    if isinstance(api_version, str) and api_version.startswith(f"{configuration.GROUP}/"):
        return None, []
    findings = [*document.findings, *_head_findings(document), *_quantity_findings(document, value, "")]
    if not findings:
        findings = [
            document_finding(document, finding.path, finding.value, finding.rule)
            for finding in manifest_findings(value)
        ]
    if findings:
        return None, findings
    metadata: dict[str, Any] = value["metadata"]
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    return Manifest(path, document, value["apiVersion"], value["kind"], namespace, name), []


def _head_findings(document: Document) -> Iterator[Finding]:
    """Yield findings about apiVersion, kind and metadata."""
    value: dict[str, Any] = document.value
    if not _is_text(value.get("apiVersion")):
        yield document_finding(
            document, "apiVersion", value.get("apiVersion"), "is no version (write batch/v1)"
        )
    if not _is_text(value.get("kind")):
        yield document_finding(document, "kind", value.get("kind"), "is no kind (write Job)")
    elif value["kind"] == "List":
        yield document_finding(document, "kind", "List", "is not read (separate the items by --- instead)")
        return
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        yield document_finding(document, "metadata", metadata, "is no mapping (give the object a name)")
        return
    for field in ("name", "generateName", "namespace"):
        if metadata.get(field) is not None and not _is_text(metadata[field]):
            rule = "is not text (put it in quotes)"
            yield document_finding(document, f"metadata.{field}", metadata[field], rule)
    if metadata.get("name") is None and metadata.get("generateName") is None:
        yield document_finding(document, "metadata.name", None, "is missing (every object has a name)")


def _quantity_findings(document: Document, value: object, path: str) -> Iterator[Finding]:
    """Yield findings about values below ``value`` that must be quantities and are not."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _quantity_findings(document, item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        below = child_path(path, key)
        if key in _QUANTITIES:
            yield from _not_a_quantity(document, below, item)
        elif key in _QUANTITY_MAPS and isinstance(item, dict):
            for name, amount in item.items():
                yield from _not_a_quantity(document, child_path(below, name), amount)
        else:
            yield from _quantity_findings(document, item, below)


def _not_a_quantity(document: Document, path: str, value: Any) -> Iterator[Finding]:
    try:
        # An unquoted fraction arrives as a float; its shortest form is the text that was written.
        parse_quantity(str(value) if isinstance(value, float) else value)
    except InvalidQuantity:
        yield document_finding(document, path, value, "is not a quantity (write 4, 500m or 16Gi)")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _rank(manifest: Manifest) -> int:
    """Return the position in the order of creation; ``sorted`` is stable, so equal ranks keep file order."""
    return _FIRST.index(manifest.kind) if manifest.kind in _FIRST else len(_FIRST)
