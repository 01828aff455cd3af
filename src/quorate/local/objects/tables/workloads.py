"""Table layouts of workloads: jobs, and sets of pods."""

from typing import Any

from quorate.api.codec import Json
from quorate.api.human_duration import age, epoch, human_duration
from quorate.local.objects.tables.layout import NONE, age_of, named


def selector_text(selector: Json | None) -> str:
    """Return `a=b,c in (d,e)`; `<none>` for an empty selector."""
    selector = selector or {}
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or []:
        key, values = requirement["key"], ",".join(sorted(requirement.get("values") or []))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[requirement["operator"]]
        )
    return ",".join(parts) or NONE


def labels_text(labels: Json | None) -> str:
    """Return `a=b,c=d`; `<none>` without labels."""
    return selector_text({"matchLabels": labels or {}})


def _containers(template: Json) -> tuple[str, str]:
    containers = template["spec"]["containers"]
    return ",".join(c["name"] for c in containers), ",".join(c.get("image", "") for c in containers)


def _pods(spec: Json) -> tuple[str, str, str]:
    """Return the names and images of the containers, and the selector of the pods."""
    return *_containers(spec["template"]), selector_text(spec.get("selector"))


_JOB_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


@named("Status,Completions,Duration,Age", "Containers,Images,Selector")
def job(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    holding = {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}
    if "deletionTimestamp" in obj["metadata"]:
        holding.add("Terminating")
    parallelism, completions = spec.get("parallelism", 0), spec.get("completions")
    wanted = completions if completions is not None else f"1 of {parallelism}" if parallelism > 1 else 1
    duration = ""
    if status.get("startTime"):
        end = epoch(status["completionTime"]) if status.get("completionTime") else now
        duration = human_duration(end - epoch(status["startTime"]))
    return [
        next((state for state in _JOB_STATES if state in holding), "Running"),
        f"{status.get('succeeded', 0)}/{wanted}",
        duration,
        age_of(obj, now),
        *_pods(spec),
    ]


@named("Ready,Up-to-date,Available,Age", "Containers,Images,Selector")
def deployment(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *_pods(spec),
    ]


@named("Desired,Current,Ready,Age", "Containers,Images,Selector")
def replica_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *_pods(spec),
    ]


@named("Ready,Age", "Containers,Images")
def stateful_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        age_of(obj, now),
        *_containers(spec["template"]),
    ]


@named("Schedule,Timezone,Suspend:boolean,Active:integer,Last Schedule,Age", "Containers,Images,Selector")
def cron_job(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    job = spec["jobTemplate"]["spec"]
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        age(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE,
        age_of(obj, now),
        *_pods(job),
    ]


@named(
    "Desired:integer,Current:integer,Ready:integer,Up-to-date:integer,Available:integer,Node Selector,Age",
    "Containers,Images,Selector",
)
def daemon_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text(spec["template"]["spec"].get("nodeSelector")),
        age_of(obj, now),
        *_pods(spec),
    ]


@named("Desired:integer,Current:integer,Ready:integer,Age", "Containers,Images,Selector")
def replication_controller(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        labels_text(spec.get("selector")),
    ]


@named("Controller,Revision,Age")
def controller_revision(obj: Json, now: float) -> list[Any]:
    owner = next(
        (
            reference
            for reference in obj["metadata"].get("ownerReferences") or ()
            if reference.get("controller")
        ),
        None,
    )
    controller = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return [controller, obj.get("revision", 0), age_of(obj, now)]


pod_template = named("Containers,Images,Pod Labels")(
    lambda obj, now: [*_containers(obj["template"]), labels_text(obj["template"]["metadata"].get("labels"))]
)
