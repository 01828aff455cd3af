"""Table layouts of built-in kinds.

``builtin.yaml`` has all layouts except those of pods and events, and documents its notation.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from quorate.api.codec import Json
from quorate.api.human_duration import age
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables.cells import CELLS, TIMED_CELLS, value_below
from quorate.local.objects.tables.layout import NAME, NONE, TableLayout, columns


def _cells(pod: Json, now: float) -> list[Any]:
    spec, status, metadata = pod["spec"], pod.get("status") or {}, pod["metadata"]
    sidecars = {c["name"] for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"}
    main = status.get("containerStatuses") or []
    initial = status.get("initContainerStatuses") or []
    initializing = _init_reason(initial, sidecars, len(spec.get("initContainers") or []))

    word = _pod_reason(status)
    counted = [c for c in initial if c["name"] in sidecars]
    ready = sum(bool(c.get("ready") and c.get("started")) for c in counted)
    if initializing and not _is_condition_true(status, "Initialized"):
        word, counted = initializing, initial
    else:
        word = _container_reason(main, word, _is_condition_true(status, "Ready"))
        ready += sum(_is_running_and_ready(c) for c in main)
        counted = [*counted, *main]
    if metadata.get("deletionTimestamp"):
        lost = status.get("reason") == "NodeLost"
        ended = status.get("phase") in ("Succeeded", "Failed")
        word = "Unknown" if lost else word if ended else "Terminating"
    return [
        metadata["name"],
        f"{ready}/{len(spec['containers']) + len(sidecars)}",
        word,
        _restarts(counted, now),
        age(metadata.get("creationTimestamp"), now),
        status.get("podIP") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec.get("readinessGates") or [], status),
    ]


def _pod_reason(status: Json) -> str:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "")


def _init_reason(initial: list[Json], sidecars: set[str], total: int) -> str:
    """Return the state of the first unfinished init container; empty if all are finished."""
    for index, container in enumerate(initial):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended and ended["exitCode"] == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            continue
        if ended:
            return f"Init:{_termination_reason(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _container_reason(containers: list[Json], word: str, is_ready: bool) -> str:
    """Return the reason of a container's state; the pod's own reason if no container has one."""
    failure = ""
    for container in reversed(containers):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated"):
            word = _termination_reason(state["terminated"])
            failure = word if state["terminated"]["exitCode"] else failure
    if word != "Completed":
        return word
    is_running = any(map(_is_running_and_ready, containers))
    if is_running and is_ready:
        return "Running"
    return failure or ("NotReady" if is_running else word)


def _termination_reason(terminated: Json) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated['exitCode']}"


def _is_running_and_ready(container: Json) -> bool:
    return bool(container.get("ready")) and (container.get("state") or {}).get("running") is not None


def _is_condition_true(status: Json, kind: str) -> bool:
    conditions = status.get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def _restarts(containers: Iterable[Json], now: float) -> str:
    count, last = 0, ""
    for container in containers:
        count += container.get("restartCount", 0)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        last = max(last, ended.get("finishedAt") or "")
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _gates(gates: list[Json], status: Json) -> str:
    if not gates:
        return NONE
    return f"{sum(_is_condition_true(status, gate['conditionType']) for gate in gates)}/{len(gates)}"


_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _conditions(pod: Json) -> list[Json]:
    phase = (pod.get("status") or {}).get("phase", "")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]


POD = TableLayout(
    (
        NAME,
        *(Column(name, "string", "") for name in ("Ready", "Status", "Restarts", "Age")),
        *(
            Column(name, "string", "", priority=1)
            for name in ("IP", "Node", "Nominated Node", "Readiness Gates")
        ),
    ),
    _cells,
    _conditions,
)


class ColumnRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table of columns."""

    heading: str = ""
    type: str = "string"
    format: str = ""
    wide: bool = False
    path: str = ""
    absent: Any = ""
    empty: Any = msgspec.UNSET
    count: str = ""
    cell: str = ""
    include: str = ""

    @property
    def column(self) -> Column:
        if self.heading == NAME.name:
            return NAME
        return Column(self.heading, self.type, "", self.format, priority=int(self.wide))

    def cell_reader(self) -> Callable[[Json, float], Any]:
        """Return a function that returns the cell of an object at a time in epoch seconds."""
        if self.cell in TIMED_CELLS:
            return TIMED_CELLS[self.cell]
        if self.cell:
            cell = CELLS[self.cell]
            return lambda obj, _: cell(obj)
        names, absent, empty = (self.count or self.path).split("."), self.absent, self.empty
        if self.count:
            return lambda obj, _: len(value_below(obj, names, ()))
        if empty is msgspec.UNSET:
            return lambda obj, _: value_below(obj, names, absent)
        return lambda obj, _: value_below(obj, names, absent) or empty


@cache
def rules() -> dict[str, list[ColumnRule]]:
    """Return the columns of each entry of the table, as it has them."""
    text = files(__package__).joinpath("builtin.yaml").read_text("utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, list[ColumnRule]])


def _expanded(entry: str) -> Iterator[ColumnRule]:
    for rule in rules()[entry]:
        if rule.include:
            yield from _expanded(rule.include)
        else:
            yield rule


@cache
def _layout(entry: str) -> TableLayout:
    row = list(_expanded(entry))
    if row[0].heading != NAME.name:
        row.insert(0, ColumnRule(NAME.name, path="metadata.name"))
    readers = [rule.cell_reader() for rule in row]
    return TableLayout(
        tuple(rule.column for rule in row), lambda obj, now: [read(obj, now) for read in readers]
    )


def _event(obj: Json, now: float) -> list[Any]:
    """Return the cells of a core/v1 or events.k8s.io/v1 Event.

    In events.k8s.io the fields of core/v1 have the prefix `deprecated`.
    """
    regarding = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series")
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last, count = series["lastObservedTime"], series["count"]
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    names = [source.get("component") or reporter, source.get("host") or obj.get("reportingInstance") or ""]
    kind, name = regarding.get("kind", "").lower(), regarding.get("name")
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        regarding.get("fieldPath", ""),
        ", ".join(name for name in names if name),
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now),
        count,
        obj["metadata"]["name"],
    ]


EVENT = TableLayout(
    (
        *columns("Last Seen,Type,Reason,Object"),
        *columns("", "Subobject,Source"),
        *columns("Message"),
        *columns("", "First Seen,Count"),
        Column("Name", "string", "", "name", priority=1),
    ),
    _event,
)
_LAYOUTS = {("", "Event"): EVENT, ("", "Pod"): POD, ("events.k8s.io", "Event"): EVENT}


def builtin_layout(group: str, kind: str) -> TableLayout:
    """Return the layout of a built-in kind; by default name and age."""
    entry = f"{group}/{kind}"
    return _LAYOUTS.get((group, kind)) or _layout(entry if entry in rules() else "Age")
