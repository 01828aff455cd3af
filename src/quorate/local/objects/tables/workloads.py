"""Table layouts of workloads: jobs, and sets of pods."""

from typing import Any

from quorate.api.human_duration import age, epoch, human_duration
from quorate.local.objects.schema_types import Json
from quorate.local.objects.tables.layout import NAME, NONE, TableLayout, age_of, columns


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


_JOB_STATES = ("Complete", "Failed", "Terminating", "Suspended", "FailureTarget", "SuccessCriteriaMet")


def _job(obj: Json, now: float) -> list[Any]:
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
        obj["metadata"]["name"],
        next((state for state in _JOB_STATES if state in holding), "Running"),
        f"{status.get('succeeded', 0)}/{wanted}",
        duration,
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


JOB = TableLayout((NAME, *columns("Status,Completions,Duration,Age", "Containers,Images,Selector")), _job)


def _deployment(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


DEPLOYMENT = TableLayout(
    (NAME, *columns("Ready,Up-to-date,Available,Age", "Containers,Images,Selector")), _deployment
)


def _replica_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


REPLICA_SET = TableLayout(
    (NAME, *columns("Desired,Current,Ready,Age", "Containers,Images,Selector")), _replica_set
)


def _stateful_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        age_of(obj, now),
        *_containers(spec["template"]),
    ]


STATEFUL_SET = TableLayout((NAME, *columns("Ready,Age", "Containers,Images")), _stateful_set)


def _cron_job(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    job = spec["jobTemplate"]["spec"]
    return [
        obj["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        age(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE,
        age_of(obj, now),
        *_containers(job["template"]),
        selector_text(job.get("selector")),
    ]


CRON_JOB = TableLayout(
    (
        NAME,
        *columns(
            "Schedule,Timezone,Suspend:boolean,Active:integer,Last Schedule,Age", "Containers,Images,Selector"
        ),
    ),
    _cron_job,
)


def _daemon_set(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text(spec["template"]["spec"].get("nodeSelector")),
        age_of(obj, now),
        *_containers(spec["template"]),
        selector_text(spec.get("selector")),
    ]


DAEMON_SET = TableLayout(
    (
        NAME,
        *columns("Desired:integer,Current:integer,Ready:integer,Up-to-date:integer,Available:integer"),
        *columns("Node Selector,Age", "Containers,Images,Selector"),
    ),
    _daemon_set,
)


def _replication_controller(obj: Json, now: float) -> list[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    return [
        obj["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *_containers(spec["template"]),
        labels_text(spec.get("selector")),
    ]


REPLICATION_CONTROLLER = TableLayout(
    (NAME, *columns("Desired:integer,Current:integer,Ready:integer,Age", "Containers,Images,Selector")),
    _replication_controller,
)


def _controller_revision(obj: Json, now: float) -> list[Any]:
    owner = next(
        (each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None
    )
    controller = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        controller = f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return [obj["metadata"]["name"], controller, obj.get("revision", 0), age_of(obj, now)]


CONTROLLER_REVISION = TableLayout((NAME, *columns("Controller,Revision,Age")), _controller_revision)
POD_TEMPLATE = TableLayout(
    (NAME, *columns("Containers,Images,Pod Labels")),
    lambda obj, now: [
        obj["metadata"]["name"],
        *_containers(obj["template"]),
        labels_text(obj["template"]["metadata"].get("labels")),
    ],
)
