"""Check the references between manifests before anything starts.

A run has a cluster of its own, so an object that is not among the manifests will never exist: a job with a
misspelled queue would wait forever.
"""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from quorate.api import kueue
from quorate.api.findings import Finding, child_path
from quorate.cli.run.manifest import Manifest, document_finding

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
                if isinstance(entries, dict) and isinstance(name := entries.get(kueue.QUEUE_NAME), str):
                    yield child_path(f"metadata.{field}", kueue.QUEUE_NAME), "LocalQueue", name


def _items(parent: object, path: str, field: str) -> Iterator[tuple[str, object]]:
    items = parent.get(field) if isinstance(parent, dict) else None
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield f"{path}.{field}[{index}]", item


def _is(manifest: Manifest, kind: str, effective_namespace: str = "") -> bool:
    return manifest.kind == kind and (
        not effective_namespace or manifest.effective_namespace == effective_namespace
    )


def _rule(name: str, kind: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    if near:
        return f"names no {kind} (did you mean {near[0]}?)"
    return f"names no {kind} (there is {', '.join(sorted(known)) or 'none'}; add its manifest)"
