"""Conversion of ``kueue.x-k8s.io`` objects between v1beta1 and v1beta2, as JSON.

v1beta2 is the storage version, which the rest of Quorate reads. Fields that exist in only one version are
dropped. A round trip that starts with v1beta1 may change the representation (``admissionChecks`` becomes
``admissionChecksStrategy``), and one that starts with v1beta2 loses its newest fields. Kinds that are not in
``CONVERTED_KINDS`` have the same schema in both versions: only apiVersion changes.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.kueue import GROUP
from quorate.api.kueue.topology import topology_assignment

V1BETA1: Final = f"{GROUP}/v1beta1"
V1BETA2: Final = f"{GROUP}/v1beta2"


class UnknownVersion(ValueError):
    """The version of an object, or the requested version, is neither v1beta1 nor v1beta2."""

    def __init__(self, api_version: object) -> None:
        super().__init__(api_version)
        self.api_version = api_version

    def __str__(self) -> str:
        return f"apiVersion: {self.api_version!r} is not a version of {GROUP} (write {V1BETA1} or {V1BETA2})"


class TooLarge(ValueError):
    """The object would become much larger by its conversion."""


def convert_version(body: Json, api_version: str) -> Json:
    """Return a copy of ``body`` in ``api_version``.  Raises ``UnknownVersion`` and ``TooLarge``."""
    result = deepcopy(body)
    convert_in_place(result, api_version)
    return result


def convert_in_place(body: Json, api_version: str) -> None:
    """Convert ``body`` to ``api_version``.  Raises ``UnknownVersion`` before any change, and ``TooLarge``."""
    for version in (body.get("apiVersion"), api_version):
        if version not in (V1BETA1, V1BETA2):
            raise UnknownVersion(version)
    if body["apiVersion"] == api_version:
        return
    body["apiVersion"] = api_version
    if changes := _CHANGES.get(body.get("kind", "")):
        upgrade, downgrade = changes
        (upgrade if api_version == V1BETA2 else downgrade)(_part(body, "spec"), _part(body, "status"))


def _part(holder: Json, name: str) -> Json:
    """Return the object at ``name`` in ``holder``, or a detached empty object."""
    part = holder.get(name)
    return part if isinstance(part, dict) else {}


def _items(holder: Json, name: str) -> list[Json]:
    return [item for item in holder.get(name) or () if isinstance(item, dict)]


def _rename(holder: Json, old: str, new: str) -> None:
    if old in holder:
        holder[new] = holder.pop(old)


# A priority class reference is a source in v1beta1, and a group and kind in v1beta2.
_CLASS_REFERENCES: Final = {
    f"{GROUP}/workloadpriorityclass": (GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_SOURCE_BY_REFERENCE: Final = {reference: source for source, reference in _CLASS_REFERENCES.items()}


def _upgrade_workload(spec: Json, status: Json) -> None:
    name, source = spec.pop("priorityClassName", ""), spec.pop("priorityClassSource", "")
    if name and source in _CLASS_REFERENCES:
        group, kind = _CLASS_REFERENCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    _rename(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    for assignment in _items(_part(status, "admission"), "podSetAssignments"):
        topology = _part(assignment, "topologyAssignment")
        if "domains" in topology:
            topology["slices"] = _slices(topology.pop("domains"), topology.get("levels", ()))


def _downgrade_workload(spec: Json, status: Json) -> None:
    reference = spec.pop("priorityClassRef", None) or {}
    source = _SOURCE_BY_REFERENCE.get((reference.get("group", ""), reference.get("kind", "")))
    if source is not None:
        spec |= {"priorityClassName": reference["name"], "priorityClassSource": source}
    spec.pop("preemptionGates", None)
    status.pop("preemptionGates", None)
    for pod_set in _items(spec, "podSets"):
        _part(pod_set, "topologyRequest").pop("podsetSliceRequiredTopologyConstraints", None)
    _rename(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    for assignment in _items(_part(status, "admission"), "podSetAssignments"):
        topology = _part(assignment, "topologyAssignment")
        if "slices" in topology:
            topology["domains"] = _domains(topology.pop("slices"))


def _slices(domains: list[Json], levels: Sequence[str]) -> Any:
    listed = (
        (tuple(domain["values"][level] for level in range(len(levels))), domain["count"])
        for domain in domains
    )
    return codec.to_builtins(topology_assignment(tuple(levels), listed).slices)


# A slice states the number of its domains and shared values once; a list of domains has each of them.
MAX_DOMAIN_VALUES: Final = 150_000  # with the numbers of pods: 50,000 domains of two levels
_MAX_DOMAIN_CHARACTERS: Final = 4 * 2**20


def _domains(slices: list[Json]) -> list[Json]:
    values = sum(max(0, part["domainCount"]) * (1 + len(part["valuesPerLevel"])) for part in slices)
    if values > MAX_DOMAIN_VALUES:
        raise TooLarge(f"the topology assignment has {values} values, of at most {MAX_DOMAIN_VALUES}")
    characters = sum(max(0, part["domainCount"]) * _shared_characters(part) for part in slices)
    if characters > _MAX_DOMAIN_CHARACTERS:
        raise TooLarge(
            f"the topology assignment has {characters} characters, of at most {_MAX_DOMAIN_CHARACTERS}"
        )
    return [
        {"values": [_value(level, at) for level in part["valuesPerLevel"]], "count": _pods(part, at)}
        for part in slices
        for at in range(part["domainCount"])
    ]


def _shared_characters(part: Json) -> int:
    """Return how many characters each domain repeats."""
    shared: list[Sequence[str]] = []
    for level in part["valuesPerLevel"]:
        individual = level.get("individual", {})
        shared += [level.get("universal", ""), individual.get("prefix", ""), individual.get("suffix", "")]
    return sum(map(len, shared))


def _value(level: Json, at: int) -> str:
    if "universal" in level:
        return str(level["universal"])
    own = level["individual"]
    return f"{own.get('prefix', '')}{own['roots'][at]}{own.get('suffix', '')}"


def _pods(part: Json, at: int) -> int:
    counts = part["podCounts"]
    return int(counts["universal"] if "universal" in counts else counts["individual"][at])


_FUNGIBILITY: Final = {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}


def _upgrade_cluster_queue(spec: Json, status: Json) -> None:
    _rename(spec, "cohort", "cohortName")
    if checks := spec.pop("admissionChecks", None):
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = _part(spec, "flavorFungibility")
    for field, older_word in _FUNGIBILITY.items():
        if fungibility.get(field) == older_word:
            fungibility[field] = "MayStopSearch"
    status.pop("pendingWorkloadsStatus", None)
    _part(status, "fairSharing").pop("admissionFairSharingStatus", None)


def _downgrade_cluster_queue(spec: Json, _: Json) -> None:
    _rename(spec, "cohortName", "cohort")
    spec.pop("concurrentAdmissionPolicy", None)


def _upgrade_local_queue(_: Json, status: Json) -> None:
    _rename(status, "flavorUsage", "flavorsUsage")
    status.pop("flavors", None)


def _downgrade_local_queue(_: Json, status: Json) -> None:
    _rename(status, "flavorsUsage", "flavorUsage")


def _upgrade_cohort(_: Json, status: Json) -> None:
    _part(status, "fairSharing").pop("admissionFairSharingStatus", None)


def _upgrade_remote_cluster(spec: Json, _: Json) -> None:
    source = {name: spec.pop(name) for name in ("kubeConfig", "clusterProfileRef") if name in spec}
    if source:
        spec["clusterSource"] = source


def _downgrade_remote_cluster(spec: Json, _: Json) -> None:
    spec |= spec.pop("clusterSource", None) or {}


def _no_conversion(_spec: Json, _status: Json) -> None:
    pass


Change = Callable[[Json, Json], None]
"""A function that changes a spec and a status in place."""

_CHANGES: Final[Mapping[str, tuple[Change, Change]]] = {
    "ClusterQueue": (_upgrade_cluster_queue, _downgrade_cluster_queue),
    "Cohort": (_upgrade_cohort, _no_conversion),
    "LocalQueue": (_upgrade_local_queue, _downgrade_local_queue),
    "MultiKueueCluster": (_upgrade_remote_cluster, _downgrade_remote_cluster),
    "Workload": (_upgrade_workload, _downgrade_workload),
}

CONVERTED_KINDS: Final = tuple(_CHANGES)
"""Kinds with versions that differ by more than what schema pruning handles."""
