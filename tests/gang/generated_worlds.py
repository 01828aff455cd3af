"""Generated small worlds, in the notation of the vectors, and snapshots of models."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from quorate.gang.cache.model import Model

Json = dict[str, Any]

CLASSES = {"low": 1, "high": 9}
ACTIONS = (
    "allocate, backfill",
    "allocate, backfill, preempt",
    "allocate, reclaim",
    "allocate, backfill, preempt, reclaim",
    "enqueue, allocate, backfill, preempt, reclaim",
)
ONE_TIER = ["priority", "gang", "conformance", "proportion", "predicates", "nodeorder"]
TIERS: tuple[list[list[str]], ...] = (
    [ONE_TIER],
    [["priority", "gang", "conformance"], ["predicates", "nodeorder"]],
    [["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"]],
    [["priority", "gang", "conformance"], ["predicates", "binpack"]],
)
confs = st.builds(
    lambda actions, tiers: {"actions": actions, "tiers": tiers},
    st.sampled_from(ACTIONS),
    st.sampled_from(TIERS),
)


def sometimes(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == one_in


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Json:
    node: Json = {
        "name": name,
        "cpu": draw(st.integers(1, 4)),
        "labels": {"zone": draw(st.sampled_from("xy"))},
    }
    if sometimes(draw, 4):
        node["pods"] = draw(st.integers(1, 4))
    if sometimes(draw, 6):
        node["taints"] = [{"key": "kept", "value": "", "effect": "NoSchedule"}]
    return node


@st.composite
def groups(draw: st.DrawFn, name: str, queues: list[str]) -> Json:
    group: Json = {
        "name": name,
        "queue": draw(st.sampled_from(queues)),
        "minMember": draw(st.integers(0, 3)),
        "created": draw(st.integers(0, 3)),
        "priorityClassName": draw(st.sampled_from(("", "low", "high"))),
    }
    if sometimes(draw, 3):
        group["minTaskMember"] = {"a": draw(st.integers(0, 2)), "b": draw(st.integers(0, 2))}
    if sometimes(draw, 2):
        group["minResources"] = {"cpu": draw(st.integers(0, 4))}
    if sometimes(draw, 6):
        group["annotations"] = {"volcano.sh/preemptable": "false"}
    return group


@st.composite
def pods(draw: st.DrawFn, name: str, group: str) -> Json:
    pod: Json = {"name": name, "group": group, "role": draw(st.sampled_from(("", "a", "b")))}
    cpu = draw(st.integers(0, 3))
    if cpu:
        pod["cpu"] = cpu
    if sometimes(draw, 5):
        pod["priority"] = draw(st.integers(0, 3))
    if sometimes(draw, 8):
        pod["preemptable"] = False
    if sometimes(draw, 8):
        pod["preemptionPolicy"] = "Never"
    if sometimes(draw, 10):
        pod["gated"] = True
    if sometimes(draw, 8):
        pod["nodeSelector"] = {"zone": draw(st.sampled_from("xy"))}
    if sometimes(draw, 3):
        pod["tolerations"] = [{"key": "kept", "operator": "Exists"}]
    return pod


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    """Draw nodes, one or two queues, and gangs with running, pending and releasing pods."""
    given: Json = {"priorityClasses": CLASSES, "nodes": [], "podGroups": [], "pods": []}
    given["nodes"] = [draw(nodes(f"n{index}")) for index in range(draw(st.integers(1, 3)))]
    queues = ["q1", "q2"][: draw(st.integers(1, 2))]
    given["queues"] = [
        {"name": name, "weight": draw(st.integers(1, 2)), "reclaimable": not sometimes(draw, 6)}
        for name in queues
    ]
    free = {node["name"]: [node["cpu"], node.get("pods", 110)] for node in given["nodes"]}
    for index in range(draw(st.integers(1, 4))):
        group = draw(groups(f"g{index}", queues))
        members = [
            draw(pods(f"g{index}-{member}", group["name"])) for member in range(draw(st.integers(0, 4)))
        ]
        runs = [draw_place(draw, pod, free) for pod in members]
        group["phase"] = "Running" if any(runs) else draw(st.sampled_from(("", "Inqueue")))
        given["podGroups"].append(group)
        given["pods"] += members
    if sometimes(draw, 3):
        foreign_pod = {"name": "web", "cpu": 1, "schedulerName": "default-scheduler"}
        if draw_place(draw, foreign_pod, free):
            given["pods"].append(foreign_pod)
    return given


def draw_place(draw: st.DrawFn, pod: Json, free: dict[str, list[int]]) -> bool:
    """Draw whether ``pod`` runs on a node that it fits; return True if it does."""
    where = draw(st.sampled_from(("", *free)))
    if not where or pod.get("gated") or free[where][0] < pod.get("cpu", 0) or free[where][1] < 1:
        return False
    free[where][0] -= pod.get("cpu", 0)
    free[where][1] -= 1
    pod.update(node=where, phase="Running", deleting=sometimes(draw, 6))
    return True


def picture(model: Model) -> Json:
    """Return all that a model has on gangs and nodes, to compare two models."""
    cluster = model.cluster
    return {
        "gangs": {
            str(gang.key): {
                "phase": gang.phase,
                "tally": counts(gang.task_counts.by_status),
                "roles": {
                    role: counts(task_counts.by_status)
                    for role, task_counts in gang.roles.items()
                    if counts(task_counts.by_status)
                },
                "held": counts(gang.requests.allocated),
                "wanted": counts(gang.requests.pending),
                "placeable": sorted(map(str, gang.schedulable)),
                "shapes": sum(gang.shapes.values()),
                "tasks": {
                    str(task.key): (task.status.value, task.node, task.nominated_node)
                    for task in sorted(gang.tasks.values(), key=lambda task: task.key)
                },
            }
            for gang in sorted(model.gangs.values(), key=lambda gang: gang.key)
        },
        "nodes": {
            name: {
                part: counts(
                    dict(zip(cluster.resources, getattr(cluster, part)[:, index].tolist(), strict=True))
                )
                for part in ("used", "releasing", "pipelined")
            }
            for name in sorted(cluster.names())
            if (index := cluster.index(name)) is not None
        },
        "tasks on nodes": {
            name: sorted(str(task.key) for task in model.tasks_on(name)) for name in sorted(cluster.names())
        },
    }


def counts(given: Mapping[Any, int]) -> dict[str, int]:
    return dict(sorted((getattr(key, "value", key), count) for key, count in given.items() if count))
