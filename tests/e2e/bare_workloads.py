"""Helpers for tests of Workloads without a job and of foreign clients that write to them."""

from typing import Any

from quorate.api.kueue import Workload
from quorate.api.meta import Condition, Key, at_epoch, find_condition
from quorate.kube.client import PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.resources import WORKLOADS, untyped
from quorate.observe.queueing_metrics import readings
from tests.e2e.world import NAMESPACE, World

Json = dict[str, Any]
RAW = untyped("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True)
ADMISSION_MANAGER = "kueue-admission"  # the field manager of Kueue and of compatible tools


async def submit(
    world: World,
    name: str,
    queue: str = "queue",
    pods: int = 1,
    requests: Json | None = None,
    namespace: str = NAMESPACE,
    metadata: Json | None = None,
    pod_spec: Json | None = None,
    **spec: Any,
) -> None:
    """Create a workload of one pod set without an owner."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests or {}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **(pod_spec or {})}}
    pod_sets = [{"name": "main", "count": pods, "template": template}]
    body = {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {**({"queueName": queue} if queue else {}), "podSets": pod_sets, **spec},
    }
    await world.client.create(RAW, body, namespace)


async def read(world: World, name: str, namespace: str = NAMESPACE) -> Workload:
    return await world.client.get(WORKLOADS, Key(namespace, name))


async def get_condition(world: World, name: str, type_: str, namespace: str = NAMESPACE) -> Condition | None:
    return find_condition((await read(world, name, namespace)).status.conditions, type_)


async def until_workload_condition(
    world: World, name: str, type_: str, status: str = "True", reason: str = "", namespace: str = NAMESPACE
) -> Condition:
    async def find() -> Condition | None:
        found = await get_condition(world, name, type_, namespace)
        if found is None or found.status != status or reason not in ("", found.reason):
            return None
        return found

    return await world.until(f"{name}: {type_}={status} {reason}", find)


async def until_admitted(world: World, *names: str) -> None:
    for name in names:
        await until_workload_condition(world, name, "Admitted")


async def until_pending(world: World, *names: str) -> None:
    for name in names:
        await until_workload_condition(world, name, "QuotaReserved", "False", "WaitingForQuota")


async def finish(world: World, *names: str) -> None:
    """Finish workloads with an update that contains only the Finished condition."""
    for name in names:
        stored = await world.client.get(RAW, Key(NAMESPACE, name))
        stored["status"]["conditions"] = [_condition("Finished", "True", "ByHand")]
        await world.client.replace(RAW, Key(NAMESPACE, name), stored, subresource="status")


async def reserve(world: World, name: str, usage: Json, cluster_queue: str = "research") -> None:
    """Reserve quota for all pods of a workload by server-side apply, as another scheduler does."""
    (pod_set,) = (await read(world, name)).spec.pod_sets
    flavors = dict.fromkeys(usage, "default")
    assignment = {
        "name": pod_set.name, "count": pod_set.count, "flavors": flavors, "resourceUsage": usage
    }  # fmt: skip
    admission = {"clusterQueue": cluster_queue, "podSetAssignments": [assignment]}
    reserved = _condition("QuotaReserved", "True", "QuotaReserved")
    await apply(world, name, {"admission": admission, "conditions": [reserved]})


async def release_quota(world: World, *names: str) -> None:
    """Release the quota of evicted workloads by server-side apply, as Kueue does."""
    for name in names:
        await until_workload_condition(world, name, "Evicted")
        stored = await world.client.get(RAW, Key(NAMESPACE, name))
        kept = [
            one for one in stored["status"]["conditions"] if one["type"] not in ("QuotaReserved", "Admitted")
        ]
        status = {
            "conditions": [
                *kept,
                _condition("QuotaReserved", "False", "WaitingForQuota"),
                _condition("Admitted", "False", "NoReservation"),
            ],
            **{key: stored["status"][key] for key in _OWNED if key in stored["status"]},
        }
        await apply(world, name, status, resourceVersion=stored["metadata"]["resourceVersion"])


async def apply(world: World, name: str, status: Json, **metadata: Any) -> None:
    body = {
        "apiVersion": RAW.api_version,
        "kind": RAW.kind,
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "status": status,
    }
    await world.client.patch(
        RAW,
        Key(NAMESPACE, name),
        body,
        subresource="status",
        kind=PatchKind.APPLY,
        force=True,
        field_manager=ADMISSION_MANAGER,
    )


def _condition(type_: str, status: str, reason: str) -> Json:
    now = at_epoch(WallClock().now()).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "by hand",
        "lastTransitionTime": now,
    }


_OWNED = ("requeueState", "admissionChecks", "schedulingStats", "accumulatedPastExecutionTimeSeconds")


def gauges(world: World, name: str) -> dict[tuple[str, ...], float]:
    """Return the current series of ``name`` by label values."""
    view = world.replica.view
    assert view is not None, "the queueing controllers are not ready"
    return {tuple(each.labels.values()): each.value for each in readings(view, {}) if each.name == name}


async def until_gauges(world: World, name: str, want: dict[tuple[str, ...], float]) -> None:
    """Wait until the series of ``name`` include ``want``: values by label values."""

    async def find() -> bool:
        return want.items() <= gauges(world, name).items()

    await world.until(f"{name}: {want}", find)


async def until_waiting(world: World, cluster_queue: str, *, active: int, inadmissible: int) -> None:
    await until_gauges(
        world,
        "pending_workloads",
        {(cluster_queue, "active"): active, (cluster_queue, "inadmissible"): inadmissible},
    )
