"""Pseudonyms for the names in the documents of a snapshot.

A pseudonym is the rank of a name among all names of the snapshot, such as ``n0042``.  Names break ties
between workloads, queues, flavors and nodes, and pseudonyms are in the order of the names: the snapshot is
played with the same result.  Equal names have equal pseudonyms wherever they occur, so that references and
selectors still match.  No hash is involved, so that no name can be found by trying.

Replaced are the names of objects, pod sets and containers, and the values of labels, taints and selectors.
Messages and descriptions are left out.  Kept are the keys of labels, names of resources, kinds, controllers,
scheduling gates and schedulers, and uids.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
import yaml

from quorate.api import configuration
from quorate.api.configuration.planned_starts import BACKFILL
from quorate.api.configuration.priority_aging import PRIORITY_AGING
from quorate.queueing.nodes.topology_flavors import NODE_FIT
from quorate.queueing.planning.rules import DEFAULT_MAXIMUM, DEPTH, OVERRUN, RESERVE_AFTER

# By the field that contains them.
NAMES: Final = frozenset(
    (
        "clusterName", "clusterQueue", "cohortName", "flavor", "name", "namespace", "nodeName", "parentName",
        "podGroupName", "podSetGroupName", "priorityClassName", "queueName", "resourceClaimName",
        "resourceClaimTemplateName", "runtimeClassName", "topologyName", "universal", "value",
    )
)  # fmt: skip
LISTS_OF_NAMES: Final = frozenset(
    (
        "clusterQueues",
        "names",
        "namespaces",
        "nominatedClusterNames",
        "onFlavors",
        "queues",
        "roots",
        "values",
    )
)
MAPS_TO_NAMES: Final = frozenset(("flavors", "labels", "matchLabels", "nodeLabels", "nodeSelector"))
LEFT_OUT: Final = frozenset(("description", "finalizers", "generateName", "images", "message"))
_ANYWHERE: Final = NAMES | LISTS_OF_NAMES | MAPS_TO_NAMES
_OF_CONFIGURATION: Final = frozenset(("matchLabels", "namespace", "values"))
_NAMES_OF_OTHERS: Final = frozenset(("resources", "schedulingGates"))  # lists of objects with a kept name
_SETTINGS: Final = frozenset(  # of queues and flavors
    (BACKFILL, DEPTH, RESERVE_AFTER, DEFAULT_MAXIMUM, OVERRUN, PRIORITY_AGING, NODE_FIT)
)
_KEPT_ANNOTATION: Final = re.compile(r"-?([0-9.]+(ms|s|m|h)?)+|true|false")

_Rename = Callable[[str], str]
_Json = Any  # what a document decodes to


def pseudonymised(documents: Iterable[str]) -> list[str]:
    """Return the documents of a snapshot, in YAML or JSON, with pseudonyms instead of names."""
    bodies = [_decoded(document) for document in documents]
    numeric = {key for body in bodies for key in _keys_compared_as_numbers(body)}
    names: set[str] = set()

    def collect(name: str) -> str:
        names.add(name)
        return name

    for body in bodies:
        _document(body, collect, numeric)
    names.discard("")
    digits = len(str(len(names)))
    pseudonyms = {name: f"n{rank:0{digits}}" for rank, name in enumerate(sorted(names), start=1)}
    pseudonyms[""] = ""
    renamed = (_document(body, pseudonyms.__getitem__, numeric) for body in bodies)
    return [msgspec.json.encode(body).decode() + "\n" for body in renamed]


def _decoded(document: str) -> _Json:
    # YAML is read much slower than JSON, of which most documents of a snapshot are.
    return msgspec.json.decode(document) if document.startswith("{") else yaml.safe_load(document)


def _document(body: _Json, rename: _Rename, numeric: set[str]) -> _Json:
    is_configuration = str(body.get("apiVersion", "")).startswith(configuration.GROUP)
    return _renamed(body, rename, numeric, _OF_CONFIGURATION if is_configuration else _ANYWHERE)


def _renamed(value: _Json, rename: _Rename, numeric: set[str], fields: frozenset[str]) -> _Json:
    """Return ``value`` with other names in the fields ``fields``; labels ``numeric`` keep their values."""
    if isinstance(value, list):
        return [_renamed(item, rename, numeric, fields) for item in value]
    if not isinstance(value, dict):
        return value
    if "roots" in value:
        value = _whole_values(value)
    result: dict[str, _Json] = {}
    is_numeric = value.get("key") in numeric
    for field, inner in value.items():
        if field in LEFT_OUT:
            continue
        if field == "annotations":
            result[field] = {key: _annotation(key, text, rename) for key, text in inner.items()}
        elif field in _NAMES_OF_OTHERS and isinstance(inner, list):
            result[field] = [_with_name_of(item, rename, numeric, fields) for item in inner]
        elif field not in fields or (field in ("value", "values") and is_numeric):
            result[field] = _renamed(inner, rename, numeric, fields)
        elif field in MAPS_TO_NAMES and isinstance(inner, dict):
            result[field] = {key: value if key in numeric else rename(value) for key, value in inner.items()}
        elif field in LISTS_OF_NAMES:
            result[field] = [rename(item) for item in inner]
        elif field in NAMES and isinstance(inner, str):
            result[field] = rename(inner)
        else:
            result[field] = _renamed(inner, rename, numeric, fields)
    return result


def _with_name_of(value: _Json, rename: _Rename, numeric: set[str], fields: frozenset[str]) -> _Json:
    return {**_renamed(value, rename, numeric, fields), "name": value["name"]}


def _annotation(key: str, text: str, rename: _Rename) -> str:
    """Return the value of an annotation: a setting, a level of a topology, a number, or names between /."""
    if key in _SETTINGS or key.endswith("-topology") or _KEPT_ANNOTATION.fullmatch(text):
        return text
    return "/".join(rename(part) for part in text.split("/"))


def _whole_values(individual: _Json) -> _Json:
    """Return the values of one level of a topology assignment without common beginning and end."""
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    return {"roots": [f"{prefix}{root}{suffix}" for root in individual["roots"]]}


def _keys_compared_as_numbers(value: _Json) -> Iterator[str]:
    """Yield the keys of labels of which a selector compares the values as numbers."""
    if isinstance(value, dict):
        if value.get("operator") in ("Gt", "Lt"):
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _keys_compared_as_numbers(item)
