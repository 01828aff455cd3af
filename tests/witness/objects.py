"""Builders of the objects that the witness reads; a case names only what it is about."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from quorate.api import codec
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import Node
from quorate.api.kueue import ClusterQueue, Cohort
from quorate.api.meta import Uid
from quorate.witness.admissions import WitnessedWorkload
from quorate.witness.devices import WitnessedClaim, WitnessedSlice
from quorate.witness.pods import WitnessedPod
from quorate.witness.report import Difference, Report
from quorate.witness.witness import Facts, Witness

GRACE_S = 10.0
ADMITTED_S = 100.0


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def a_pod(
    name: str,
    cpu: str = "1",
    *,
    job: str = "",
    node: str = "n",
    phase: str = "Running",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> WitnessedPod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return codec.convert(
        WitnessedPod,
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"Pod-{name}",
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
                "ownerReferences": [owner("Job", job)] if job else [],
                **metadata,
            },
            "spec": {"nodeName": node, "containers": [container], **(spec or {})},
            "status": {"phase": phase},
        },
    )


def pods(job: str, count: int, cpu: str = "1", **fields: Any) -> list[WitnessedPod]:
    return [a_pod(f"{job}-{index}", cpu, job=job, **fields) for index in range(count)]


def a_workload(
    name: str,
    *,
    queue: str = "q",
    flavors: Mapping[str, str] | None = None,
    usage: Mapping[str, str] | None = None,
    job: str = "",
    owners: Sequence[Mapping[str, Any]] = (),
    finished: bool = False,
    admitted: bool = True,
    at: float = ADMITTED_S,
) -> WitnessedWorkload:
    """Return a workload of the job with its name, with quota in cluster queue ``queue`` since ``at``."""
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": moment(at)}
    ended = {"type": "Finished", "status": "True", "lastTransitionTime": moment(at)}
    named = dict(flavors or {"cpu": "default"})
    assignment = {"name": "main", "flavors": named, "resourceUsage": dict(usage or {})}
    admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
    return codec.convert(
        WitnessedWorkload,
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"Workload-{name}",
                "ownerReferences": list(owners) or [owner("Job", job or name)],
            },
            "status": {
                "conditions": [reserved] * admitted + [ended] * finished,
                **({"admission": admission} if admitted else {}),
            },
        },
    )


def _groups(quota: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one group of resources; an amount is NOMINAL or [NOMINAL, borrowingLimit, lendingLimit]."""

    def of(resource: str, amount: Any) -> dict[str, Any]:
        values = amount if isinstance(amount, list) else [amount]
        names = ("nominalQuota", "borrowingLimit", "lendingLimit")
        limits = {key: str(value) for key, value in zip(names, values, strict=False) if value is not None}
        return {"name": resource, **limits}

    covered = sorted({resource for amounts in quota.values() for resource in amounts})
    flavors = [
        {"name": flavor, "resources": [of(resource, amount) for resource, amount in amounts.items()]}
        for flavor, amounts in quota.items()
    ]
    return [{"coveredResources": covered, "flavors": flavors}]


def a_queue(
    name: str = "q", cpu: Any = 4, cohort: str = "", *, generation: int = 1, **quota: Mapping[str, Any]
) -> ClusterQueue:
    """Return a cluster queue with ``cpu`` of flavor default, or with ``quota`` by flavor."""
    groups = _groups(quota or {"default": {"cpu": cpu}})
    spec = {"cohortName": cohort, "resourceGroups": groups}
    return codec.convert(ClusterQueue, {"metadata": {"name": name, "generation": generation}, "spec": spec})


def a_cohort(name: str, cpu: Any = None, parent: str = "", generation: int = 1) -> Cohort:
    groups = [] if cpu is None else _groups({"default": {"cpu": cpu}})
    spec = {"parentName": parent, "resourceGroups": groups}
    return codec.convert(Cohort, {"metadata": {"name": name, "generation": generation}, "spec": spec})


def a_node(
    cpu: str = "100", name: str = "n", ready: bool = True, pods: str = "110", vram: str = "80"
) -> Node:
    status = {
        "allocatable": {"cpu": cpu, "memory": "1Ti", "pods": pods, "example.com/vram": vram},
        "conditions": [{"type": "Ready", "status": str(ready)}],
    }
    return codec.convert(Node, {"metadata": {"name": name}, "status": status})


def a_claim(
    name: str, pod: str, *devices: str, shared_by: Sequence[str] = (), consumed: Any = None, **spec: Any
) -> WitnessedClaim:
    """Return a claim with one result for each of ``devices``, which name a request of it."""
    device = {"driver": "example.com", "pool": "p", "device": name, "consumedCapacity": consumed or {}}
    results = [{"request": each, **device} for each in devices]
    exactly = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    body = {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": [owner("Pod", pod)] if pod else []},
        "spec": {"devices": {"requests": [exactly], **spec}},
        "status": {
            "allocation": {"devices": {"results": results}} if devices else None,
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"Pod-{user}"} for user in shared_by],
        },
    }
    return codec.convert(WitnessedClaim, body)


def a_slice(**devices: dict[str, str]) -> WitnessedSlice:
    """Return the slice of a pool with ``devices``: the counters that each of them consumes, by its name."""
    listed = [
        {
            "name": name,
            "consumesCounters": [
                {"counterSet": "card", "counters": {key: {"value": value} for key, value in counters.items()}}
            ],
        }
        for name, counters in devices.items()
    ]
    body = {
        "metadata": {"name": "slice"},
        "spec": {"driver": "example.com", "pool": {"name": "p"}, "devices": listed},
    }
    return codec.convert(WitnessedSlice, body)


def facts(*objects: object, owners: Mapping[str, str] | None = None, **options: Any) -> Facts:
    """Return the facts of objects of any kind; without a node there is one with room."""

    def of(kind: type) -> list[Any]:
        return [each for each in objects if isinstance(each, kind)]

    return Facts(
        resources=options.get("resources", ResourceOptions()),
        pods=of(WitnessedPod),
        workloads=of(WitnessedWorkload),
        cluster_queues=of(ClusterQueue),
        cohorts=of(Cohort),
        nodes=of(Node) or [a_node()],
        claims=of(WitnessedClaim),
        slices=of(WitnessedSlice),
        owners={Uid(child): Uid(parent) for child, parent in (owners or {}).items()},
    )


def started(now: float = 0.0) -> Witness:
    """Return a witness that started in an empty cluster."""
    witness = Witness(GRACE_S)
    witness.observe(Facts(resources=ResourceOptions()), now)
    return witness


def show(report: Report) -> list[str]:
    """Return each difference as ``reason kind name flavor/resource excess``."""
    return [_show(each) for each in report.differences]


def _show(each: Difference) -> str:
    place = each.place
    return f"{each.reason} {place.kind} {place.name} {place.flavor}/{place.resource} +{each.excess / 1e9:g}"
