"""Read the manifests of a directory, check them without a server and put them in the order to apply them.

Two kinds of document are not applied: a ``Configuration`` of the controllers (chosen with ``--config``)
and the description of the cluster to run on (see ``cluster_description``).  The server checks what only a
server can know, such as whether it serves a kind.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.api import codec, configuration
from quorate.api.decoding.documents import SUFFIXES, Document, InvalidYaml, read_documents
from quorate.api.findings import Finding, child_path
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.api.validation import manifest_findings
from quorate.inspect.configuration_files import InvalidFiles, compiler_lines
from quorate.kube.patches import merged
from quorate.processes.local import cluster_description
from quorate.processes.local.cluster_description import ClusterDescription, read_description
from quorate.processes.local.node_pools import NodeTopology


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


# Referenced kinds come first: a reference to a missing object is refused, or decides something too early.
_FIRST: Final = (
    "Namespace", "CustomResourceDefinition", "PriorityClass", "RuntimeClass", "WorkloadPriorityClass",
    "ResourceFlavor", "Topology", "AdmissionCheck", "Cohort", "ClusterQueue", "LocalQueue",
    "LimitRange", "ResourceQuota", "ServiceAccount", "ConfigMap", "Secret", "Service",
)  # fmt: skip

_QUANTITIES: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")
_QUANTITY_MAPS: Final = ("requests", "limits")
_WITHOUT_QUANTITIES: Final = ("CustomResourceDefinition", "ConfigMap", "Secret")  # schemas, data of users


@dataclass(frozen=True, slots=True)
class Manifests:
    objects: tuple[Manifest, ...]  # in the order to apply them; jobs last, in the order of their files
    cluster_description: ClusterDescription


def read_directory(directory: Path, options: ClusterDescription = ClusterDescription()) -> Manifests:  # noqa: B008  it is frozen
    """Read every ``*.yaml``, ``*.yml`` and ``*.json`` of a directory, without its subdirectories.

    If the nodes have a topology, its objects are added; ``options`` override the description of the cluster.
    Raises ``InvalidFiles`` with all findings, each as ``file:line: path: value rule``.
    """
    texts = _texts(_entries(directory))
    manifests, descriptions, findings = _read_texts(texts)
    description = descriptions[0] if descriptions else ClusterDescription()
    topology = options.override(description).topology
    added = [] if topology is None else _missing_objects(topology, manifests)
    for manifest in manifests:
        findings += compiler_lines(manifest.file, unknown_references(manifest, [*manifests, *added]))
    if len(descriptions) > 1:
        findings.append(f"{directory}: describes {len(descriptions)} clusters (keep one)")
    if not manifests and not findings:
        findings.append(f"{directory}: holds no manifest (looked for *{', *'.join(SUFFIXES)})")
    if findings:
        raise InvalidFiles(findings)
    return Manifests(tuple(sorted([*added, *manifests], key=_rank)), description)


def read_manifests(path: Path) -> tuple[Manifest, ...]:
    """Read a file, or the files of a directory, in the order to apply their objects.

    References to absent objects are no findings: the cluster may have them.  Raises ``InvalidFiles``.
    """
    return _checked(_texts(_entries(path) if path.is_dir() else [path]))


def read_manifest_text(text: str, source: str) -> tuple[Manifest, ...]:
    """Read the objects of a text, in the order to apply them; ``source`` names it in findings.

    Raises ``InvalidFiles``.
    """
    return _checked([(Path(source), text.encode())])


def _checked(texts: Iterable[tuple[Path, bytes]]) -> tuple[Manifest, ...]:
    manifests, _, findings = _read_texts(texts)
    if findings:
        raise InvalidFiles(findings)
    return tuple(sorted(manifests, key=_rank))


def _entries(directory: Path) -> list[Path]:
    """Return the manifests of a directory, by name.  Raises ``InvalidFiles``."""
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in SUFFIXES)
    except OSError as error:
        raise InvalidFiles([f"{error.filename}: {(error.strerror or '').lower()}"]) from error


def _texts(paths: Iterable[Path]) -> list[tuple[Path, bytes]]:
    try:
        return [(path, path.read_bytes()) for path in paths]
    except OSError as error:
        raise InvalidFiles([f"{error.filename}: {(error.strerror or '').lower()}"]) from error


def _read_texts(
    texts: Iterable[tuple[Path, bytes]],
) -> tuple[list[Manifest], list[ClusterDescription], list[str]]:
    """Return the manifests, the descriptions of clusters, and the findings about them."""
    manifests: list[Manifest] = []
    descriptions: list[ClusterDescription] = []
    findings: list[str] = []
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
    return manifests, descriptions, findings


def _missing_objects(topology: NodeTopology, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the Topology of the nodes and its flavor, unless the manifests have these objects."""
    present = {(manifest.kind, manifest.name) for manifest in manifests}
    return [
        Manifest(
            Path("--topology"),
            read_documents(codec.encode(body).decode())[0],
            body["apiVersion"],
            body["kind"],
            "",
            body["metadata"]["name"],
        )
        for body in (topology.topology, topology.flavor)
        if (body["kind"], body["metadata"]["name"]) not in present
    ]


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
    findings = [*document.findings, *_head_findings(document)]
    if value.get("kind") not in _WITHOUT_QUANTITIES:
        findings += _quantity_findings(document, value, "")
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


_ALWAYS_THERE: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def unknown_references(manifest: Manifest, manifests: Iterable[Manifest]) -> Iterator[Finding]:
    """Yield findings about queues, flavors and namespaces that are not among ``manifests``."""
    named = {
        "LocalQueue": {
            other.name for other in manifests if _is(other, "LocalQueue", manifest.effective_namespace)
        },
        "ClusterQueue": {other.name for other in manifests if _is(other, "ClusterQueue")},
        "ResourceFlavor": {other.name for other in manifests if _is(other, "ResourceFlavor")},
        "Namespace": {*_ALWAYS_THERE, *(other.name for other in manifests if _is(other, "Namespace"))},
    }
    for path, kind, name in _references(manifest):
        if name not in named[kind]:
            yield document_finding(manifest.document, path, name, _rule(name, kind, named[kind]))


def _references(manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Yield path, kind and name of each reference; the server refuses fields of a wrong type."""
    metadata, spec = manifest.body["metadata"], manifest.body.get("spec")
    if manifest.namespace:
        yield "metadata.namespace", "Namespace", manifest.namespace
    match manifest.kind:
        case "LocalQueue":
            if isinstance(spec, dict) and isinstance(name := spec.get("clusterQueue"), str):
                yield "spec.clusterQueue", "ClusterQueue", name
        case "ClusterQueue" | "Cohort":
            for group_path, group in _items(spec, "spec", "resourceGroups"):
                for path, flavor in _items(group, group_path, "flavors"):
                    if isinstance(flavor, dict) and isinstance(name := flavor.get("name"), str):
                        yield f"{path}.name", "ResourceFlavor", name
        case _:
            for field in ("labels", "annotations"):
                entries = metadata.get(field)
                if isinstance(entries, dict) and isinstance(name := entries.get(QUEUE_NAME), str):
                    yield child_path(f"metadata.{field}", QUEUE_NAME), "LocalQueue", name


def _items(parent: object, path: str, field: str) -> Iterator[tuple[str, object]]:
    items = parent.get(field) if isinstance(parent, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield f"{path}.{field}[{index}]", item


def _is(manifest: Manifest, kind: str, effective_namespace: str = "") -> bool:
    return manifest.kind == kind and (
        not effective_namespace or manifest.effective_namespace == effective_namespace
    )


def _rule(name: str, kind: str, names: Collection[str]) -> str:
    near = get_close_matches(name, sorted(names), n=1)
    if near:
        return f"names no {kind} (did you mean {near[0]}?)"
    return f"names no {kind} (there is {', '.join(sorted(names)) or 'none'}; add its manifest)"
