"""Import the nodes, queues and classes of a real cluster, read from files, into a local one.

Read are manifests and lists, as ``kubectl get -o yaml`` writes them, and the files of ``quorate snapshot``.
Kept is what decides about admission and placement: of nodes labels, taints and amounts, of others labels and
the spec.  Objects of all other kinds, Secrets among them, are counted and otherwise left alone.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from quorate.api import kueue, volcano
from quorate.api.decoding import strict as d
from quorate.api.decoding.documents import SUFFIXES, Document
from quorate.api.decoding.nodes import taint
from quorate.api.findings import quote_value
from quorate.api.meta import Key
from quorate.api.validation import manifest_findings
from quorate.api.volcano import topology as volcano_topology
from quorate.inspect.configuration_files import InvalidFiles
from quorate.kube.client import Client
from quorate.kube.errors import ApiError
from quorate.kube.resources import NAMESPACES, Json, Resource, untyped
from quorate.local.nodes.fleet import NODES, OF_POOL, ORIGIN, Node, replacing

_NODE: Final = ("", "Node")
_QUOTAS: Final = (("", "LimitRange"), ("", "ResourceQuota"))
# In the order to create them: the plural, and whether the kind is namespaced.
_KINDS: Final[dict[tuple[str, str], tuple[str, bool]]] = {
    ("", "Namespace"): ("namespaces", False),
    ("scheduling.k8s.io", "PriorityClass"): ("priorityclasses", False),
    ("node.k8s.io", "RuntimeClass"): ("runtimeclasses", False),
    (kueue.GROUP, "WorkloadPriorityClass"): ("workloadpriorityclasses", False),
    (kueue.GROUP, "Topology"): ("topologies", False),
    (kueue.GROUP, "ResourceFlavor"): ("resourceflavors", False),
    (kueue.GROUP, "AdmissionCheck"): ("admissionchecks", False),
    (kueue.GROUP, "Cohort"): ("cohorts", False),
    (kueue.GROUP, "ClusterQueue"): ("clusterqueues", False),
    (volcano.GROUP, "Queue"): ("queues", False),
    (volcano_topology.GROUP, "HyperNode"): ("hypernodes", False),
    _QUOTAS[0]: ("limitranges", True),
    _QUOTAS[1]: ("resourcequotas", True),
    (kueue.GROUP, "LocalQueue"): ("localqueues", True),
    _NODE: ("nodes", False),
}
_RANKS: Final = {kind: rank for rank, kind in enumerate(_KINDS)}
# Of the server itself, or of the health of a node: simulated nodes are healthy.
_SYSTEM: Final = ("kube-", "system-")
_HEALTH: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class SnapshotObject(msgspec.Struct, frozen=True):
    """An object to import; ``body`` has no field that the real cluster owns."""

    where: str  # file and position, the beginning of a message
    resource: Resource[Json]
    key: Key
    body: Json

    @property
    def is_node(self) -> bool:
        return self.resource.kind == "Node"

    def __str__(self) -> str:
        return f"{self.where}: {self.resource.kind} {self.key.name}"


class ClusterSnapshot(msgspec.Struct, frozen=True):
    objects: tuple[SnapshotObject, ...]  # in the order to create them
    skipped: Counter[str]  # by kind


def read_cluster_snapshot(paths: Iterable[Path], *, with_quotas: bool) -> ClusterSnapshot:
    """Read files, and the files of directories.

    Raises ``InvalidFiles`` with all findings, each as ``file: position: kind name: field: value rule``.
    """
    findings: list[str] = []
    skipped: Counter[str] = Counter()
    objects: dict[tuple[str, Key], SnapshotObject] = {}
    for path in _files(paths):
        try:
            documents = list(_documents(path))
        except OSError as error:
            findings.append(f"{path}: {(error.strerror or str(error)).lower()}")
            continue
        except (UnicodeDecodeError, yaml.YAMLError, msgspec.DecodeError) as error:
            findings.append(f"{path}: cannot be read: {str(error).splitlines()[0]}")
            continue
        for where, value in documents:
            match _read(where, value, with_quotas):
                case SnapshotObject() as obj:
                    first = objects.setdefault((obj.resource.kind, obj.key), obj)
                    if first.body != obj.body:
                        findings.append(f"{obj}: differs from the one in {first.where} (keep one of the two)")
                    findings += _findings(obj)
                case (kind, ""):
                    skipped[kind] += 1
                case (_, finding):
                    findings.append(finding)
    if not objects and not findings:
        findings.append("no object to import (write the file with kubectl get nodes,clusterqueues -o yaml)")
    if findings:
        raise InvalidFiles(findings)
    return ClusterSnapshot(tuple(sorted(objects.values(), key=_order)), skipped)


def _order(obj: SnapshotObject) -> tuple[int, Key]:
    return _RANKS[obj.resource.group, obj.resource.kind], obj.key


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
        if not files:
            raise InvalidFiles([f"{path}: holds no manifest (looked for *{', *'.join(SUFFIXES)})"])
        yield from files


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the position and value of each object, items of lists one by one."""
    content = path.read_bytes()
    if path.suffix == ".json":
        documents = [msgspec.json.decode(content)]
    else:
        documents = [
            document for document in yaml.load_all(content, yaml.CSafeLoader) if document is not None
        ]
    for at, document in enumerate(documents):
        where = f"{path}" if len(documents) == 1 else f"{path}: document {at + 1}"
        is_list = isinstance(document, dict) and str(document.get("kind")).endswith("List")
        if is_list and isinstance(document.get("items"), list):
            # The items of a typed list, such as NodeList, need not repeat its version and kind.
            head = {"apiVersion": document.get("apiVersion"), "kind": document["kind"].removesuffix("List")}
            for index, item in enumerate(document["items"]):
                yield f"{where}: items[{index}]", head | item if isinstance(item, dict) else item
        else:
            yield where, document


def _read(where: str, value: Any, with_quotas: bool) -> SnapshotObject | tuple[str, str]:
    """Return an object to import; else its kind, with a finding if it cannot be read."""
    if not isinstance(value, dict):
        return "", f"{where}: {quote_value(value)} is no object (write apiVersion, kind and metadata)"
    api_version, kind, metadata = value.get("apiVersion"), value.get("kind"), value.get("metadata")
    for field, text in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(text, str) or not text:
            return "", f"{where}: {field}: {quote_value(text)} is not text (write v1 and Node)"
    group, _, version = str(api_version).rpartition("/")
    served = _KINDS.get((group, str(kind)))
    if served is None or ((group, kind) in _QUOTAS and not with_quotas):
        return str(kind), ""
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(name, str) or not name:
        return "", f"{where}: {kind}: metadata.name: {quote_value(name)} is no name (every object has one)"
    if name.startswith(_SYSTEM):
        return str(kind), ""
    namespace = (metadata.get("namespace") or "default") if served[1] else ""
    if not isinstance(namespace, str):
        return "", f"{where}: {kind} {name}: metadata.namespace: {quote_value(namespace)} is not text"
    resource = untyped(group, version, served[0], str(kind), served[1])
    body = _node_body(value) if (group, kind) == _NODE else _body(value)
    return SnapshotObject(where, resource, Key(namespace, name), body)


def _body(value: Json) -> Json:
    """Return an object without metadata of the real cluster, its status and namespaces' finalizers."""
    own = ("apiVersion", "kind", "metadata", "status")
    fields = {name: field for name, field in value.items() if name not in own}
    if value["kind"] == "Namespace":
        fields = {}
    return {"metadata": _metadata(value), **fields}


def _metadata(value: Json) -> Json:
    labels = value["metadata"].get("labels")
    return {"labels": labels} if labels else {}


def _node_body(value: Json) -> Json:
    """Return the labels, taints and amounts of a node; taints of its health are left out."""
    body: Json = {"metadata": _metadata(value)}
    spec, status = value.get("spec") or {}, value.get("status") or {}
    if isinstance(spec, dict):
        body["spec"] = {name: spec[name] for name in ("taints", "unschedulable") if spec.get(name)}
        if isinstance(taints := spec.get("taints"), list):
            body["spec"]["taints"] = [_without_time(item) for item in taints if not _is_of_health(item)]
    if isinstance(status, dict):
        body["status"] = {name: status[name] for name in ("capacity", "allocatable") if name in status}
    return body


def _without_time(value: Any) -> Any:
    return {name: value[name] for name in value if name != "timeAdded"} if isinstance(value, dict) else value


def _is_of_health(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("key")).startswith(_HEALTH)


def _findings(obj: SnapshotObject) -> Iterator[str]:
    if obj.is_node:
        context = d.DecodeContext(Document(obj.body, {"": 0}, ()))
        context.root().decode(d.section(_node), None)
        findings = context.findings
    else:
        metadata = {**obj.body["metadata"], "name": obj.key.name, "namespace": obj.key.namespace}
        head = {"apiVersion": obj.resource.api_version, "kind": obj.resource.kind}
        findings = manifest_findings({**head, **obj.body, "metadata": metadata})
    for finding in findings:
        yield f"{obj}: {finding}"


def _node(fields: d.Section) -> None:
    """Check the fields of a node that are kept."""
    fields.take("metadata", d.section(lambda metadata: metadata.take("labels", d.labels, None)), None)
    fields.take("spec", d.section(_node_spec), None)
    fields.take("status", d.section(_node_status), None)


def _node_spec(fields: d.Section) -> None:
    fields.take("taints", d.list_of(d.section(taint)), ())
    fields.take("unschedulable", d.boolean, False)


def _node_status(fields: d.Section) -> None:
    for name in ("allocatable", "capacity"):
        fields.take(name, d.map_of(d.quantity), {})
    if "allocatable" not in fields and "capacity" not in fields:
        fields.at("allocatable").reject("is missing (export nodes with kubectl get nodes -o yaml)")


_IMPORTED: Final = "imported"
_CONCURRENT: Final = 16
_NAMESPACE: Final = untyped("", "v1", "namespaces", "Namespace", False)


async def import_snapshot(client: Client, snapshot: ClusterSnapshot) -> Counter[str]:
    """Create or update the objects of a snapshot, and the namespaces they need; return how many, by kind.

    The server checks all of them before it stores the first.  Raises ``InvalidFiles`` with its refusals.
    """
    nodes = {node.metadata.name: node for node in (await client.list(NODES)).items}
    namespaces = {namespace.metadata.name for namespace in (await client.list(NAMESPACES)).items}
    if refusals := list(_nodes_of_pools(snapshot.objects, nodes)):
        raise InvalidFiles(refusals)
    objects = (*_missing_namespaces(snapshot.objects, namespaces), *snapshot.objects)

    async def check(obj: SnapshotObject) -> None:
        # An object of a namespace that does not exist yet is checked in another.
        is_elsewhere = obj.key.namespace and obj.key.namespace not in namespaces
        key = Key("default", obj.key.name) if is_elsewhere else obj.key
        await client.apply(obj.resource, key, _applied(obj), dry_run=True)

    async def store(obj: SnapshotObject) -> None:
        await client.apply(obj.resource, obj.key, _applied(obj))
        if obj.is_node:
            before = nodes.get(obj.key.name)
            amounts = obj.body["status"].get("allocatable") or obj.body["status"]["capacity"]
            replaced = replacing(() if before is None else before.status.capacity, amounts)
            status = {"capacity": replaced, "allocatable": replaced}
            await client.patch(NODES, obj.key, {"status": status}, subresource="status")

    await _for_all(check, objects)
    for _, group in groupby(objects, key=lambda obj: obj.resource.kind):
        await _for_all(store, tuple(group))
    return Counter(obj.resource.kind for obj in objects)


def _nodes_of_pools(objects: Iterable[SnapshotObject], nodes: Mapping[str, Node]) -> Iterator[str]:
    for obj in objects:
        if obj.is_node and obj.key.name in nodes:
            origin = nodes[obj.key.name].metadata.annotations.get(ORIGIN)
            if origin == OF_POOL:
                rule = "names a node in a pool of this cluster (start it with --nodes 0 or other pools)"
                yield f"{obj}: metadata.name: {obj.key.name!r} {rule}"


def _missing_namespaces(
    objects: Iterable[SnapshotObject], namespaces: Iterable[str]
) -> Iterator[SnapshotObject]:
    present = {*namespaces, *(obj.key.name for obj in objects if obj.resource.kind == "Namespace"), ""}
    for obj in objects:
        if obj.key.namespace not in present:
            present.add(obj.key.namespace)
            yield SnapshotObject(obj.where, _NAMESPACE, Key("", obj.key.namespace), {"metadata": {}})


def _applied(obj: SnapshotObject) -> Json:
    """Return what is applied of an object; the amounts of a node are in its status."""
    if not obj.is_node:
        return obj.body
    metadata = {**obj.body["metadata"], "annotations": {ORIGIN: _IMPORTED}}
    return {"metadata": metadata, "spec": obj.body.get("spec", {})}


async def _for_all(
    work: Callable[[SnapshotObject], Awaitable[None]], objects: Iterable[SnapshotObject]
) -> None:
    """Do the work for all objects, several at once.  Raises ``InvalidFiles`` with all refusals."""
    free = asyncio.Semaphore(_CONCURRENT)

    async def refusal_of(obj: SnapshotObject) -> str | None:
        async with free:
            try:
                await work(obj)
            except ApiError as error:
                return f"{obj}: {error.message}"
        return None

    refusals = await asyncio.gather(*map(refusal_of, objects))
    if any(refusals):
        raise InvalidFiles(filter(None, refusals))
