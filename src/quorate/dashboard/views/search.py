"""Search over everything that a caller may see, by name, job, label and namespace."""

from collections.abc import Iterator
from itertools import islice

from quorate.api.meta import Key
from quorate.dashboard.limits import MAX_HITS
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.workload_index import searched_text
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import SearchHit, SearchResult


def search(data: ClusterData, viewer: Viewer, text: str, limit: int) -> SearchResult:
    """Return what contains ``text``, whatever its case, in the order of kinds and names.

    Names that begin with it come first.
    """
    wanted, limit = text.strip().lower(), max(1, min(MAX_HITS, limit))
    if not wanted:
        return SearchResult(hits=(), more=False)
    hits = list(islice(_hits(data, viewer, wanted), MAX_HITS * 10))
    hits.sort(key=lambda hit: not hit.name.lower().startswith(wanted))
    return SearchResult(hits=tuple(hits[:limit]), more=len(hits) > limit)


def _hits(data: ClusterData, viewer: Viewer, wanted: str) -> Iterator[SearchHit]:
    for name in data.cluster_queues(viewer):
        if wanted in name.lower():
            yield SearchHit(kind="ClusterQueue", namespace="", name=name, matched=f"name {name}")
    for key, _ in data.local_queues(viewer):
        if wanted in str(key).lower():
            yield _hit("LocalQueue", key, str(key).lower(), wanted)
    if viewer.nodes:
        for name, node in sorted(data.topology.nodes.items()):
            labels = "\n".join(f"{label}={value}" for label, value in node.metadata.labels.items())
            text = f"{name}\n{labels}".lower()
            if wanted in text:
                yield _hit("Node", Key("", name), text, wanted)
    for _, members in data.readable(viewer):
        for key, listed in members.items():
            if wanted in listed.text:
                yield _hit("Workload", key, listed.text, wanted)
    for key, group in sorted(data.pod_groups.items()):
        if viewer.reads_pod_group(key) and wanted in (text := searched_text(group.metadata)):
            yield _hit("PodGroup", key, text, wanted)


def _hit(kind: str, key: Key, text: str, wanted: str) -> SearchHit:
    """Return the hit with the first line of ``text`` that matches: a name, a job, or a label."""
    line = next(line for line in text.split("\n") if wanted in line)
    what = "label" if "=" in line else "job"
    if line == str(key):
        what = "name" if wanted in key.name else "namespace"
    return SearchHit(kind=kind, namespace=key.namespace, name=key.name, matched=f"{what} {line}")
