"""Small worlds of Kubernetes' own pod groups, as kube-scheduler was recorded in them, in the gang core."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from quorate.api import codec, native_groups
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, at_epoch
from quorate.api.names.volcano import COOLDOWN_TIME
from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import as_volcano_group, native_key, scheduled_condition
from quorate.gang.session_run import run_session
from tests.gang import objects

Json = dict[str, Any]

PRIORITIES: Final = {"low": 0, "mid": 100, "high": 1000}
MAX_SESSIONS: Final = 50  # of one step, until nothing changes
CONFIGURATION: Final = load_scheduler_configuration("profile: native").configuration


class NativeWorld:
    """Nodes, groups and pods; each step ends when sessions decide nothing more."""

    def __init__(
        self, given: Mapping[str, Any], configuration: SchedulerConfiguration = CONFIGURATION
    ) -> None:
        self._configuration = configuration
        self.model = Model(schedulers=(objects.OUR_SCHEDULER,))
        self.model.set_queue(objects.queue({"name": "default"}))
        self.pods: dict[Key, Pod] = {}
        self._groups: dict[str, Json] = {}
        self._made: Counter[str] = Counter()  # pods of each group
        self._now = 1000.0
        for name, value in PRIORITIES.items():
            self.model.set_priority_class(objects.priority_class(name, value))
        for node in given["nodes"]:
            self._add_node(node)

    def play(self, step: Mapping[str, Any]) -> dict[str, Json]:
        """Carry out one step; return what has become of each group."""
        self._now += 10
        match step:
            case {"add": group}:
                self._add_group(group)
            case {"more": name, "pods": count}:
                self._add_pods(self._groups[name], count)
            case {"node": node}:
                self._add_node(node)
            case {"delete": name}:
                self._delete(name)
        self.settle()
        return dict(self._rows())

    def _add_node(self, node: Mapping[str, Any]) -> None:
        labels = {"rack": node["rack"]} if "rack" in node else {}
        self.model.set_node(objects.node({"name": node["name"], "cpu": node["cpu"], "labels": labels}))

    def _add_group(self, group: Json) -> None:
        self._groups[group["name"]] = group
        policy = {"gang": {"minCount": group["minCount"]}} if "minCount" in group else {"basic": {}}
        spec: Json = {
            "schedulingPolicy": policy,
            "priority": PRIORITIES.get(group.get("priority", ""), 0),
            "disruptionMode": group.get("disruption", "Pod"),
        }
        if "topology" in group:
            spec["schedulingConstraints"] = {"topology": [{"key": group["topology"]}]}
        metadata = {"name": group["name"], "namespace": "default", "uid": group["name"]} | self._created()
        native = codec.convert(native_groups.PodGroup, {"metadata": metadata, "spec": spec})
        self.model.set_group(as_volcano_group(native), native.spec)
        self._add_pods(group, group["pods"])

    def _created(self) -> Json:
        return {"creationTimestamp": at_epoch(self._now).isoformat().replace("+00:00", "Z")}

    def add_volcano_group(self, name: str, members: int, cpu: int, priority: str) -> None:
        """Add a group of Volcano with its pods, admitted."""
        self._now += 10
        group = {"name": name, "minMember": members, "priorityClassName": priority, "phase": "Inqueue"}
        self.model.set_group(objects.pod_group(group | {"created": self._now}))
        pods = {"name": name, "group": name, "count": members, "cpu": cpu, "priorityClassName": priority}
        for pod in objects.pods(pods | {"created": self._now}, PRIORITIES):
            self._put(pod)

    def run_for(self, cooldown: str) -> None:
        """Have all pods run from now on, protected from evictions for ``cooldown``."""
        for pod in list(self.pods.values()):
            labels = {**pod.metadata.labels, COOLDOWN_TIME: cooldown}
            labelled = structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels))
            self._put(objects.started(labelled, self._now))

    def pass_time(self, seconds: float) -> None:
        """Run the sessions after ``seconds`` in which no object changes."""
        self._now += seconds
        self.settle()

    def settle(self) -> None:
        """Run sessions until they decide nothing more."""
        for _ in range(MAX_SESSIONS):
            if not self._run_session():
                return
        raise AssertionError("sessions go on")

    def bound(self, group: str) -> int:
        """Return how many pods with names of the group have nodes."""
        return sum(
            bool(pod.node_name) for key, pod in self.pods.items() if key.name.rpartition("-")[0] == group
        )

    def _add_pods(self, group: Json, count: int) -> None:
        for _ in range(count):
            name = f"{group['name']}-{self._made[group['name']]}"
            self._made[group["name"]] += 1
            container = {"name": "c", "resources": {"requests": {"cpu": str(group["cpu"])}}}
            spec = {
                "schedulerName": objects.OUR_SCHEDULER,
                "schedulingGroup": {"podGroupName": group["name"]},
                "priority": PRIORITIES.get(group.get("podPriority") or group.get("priority", ""), 0),
                "containers": [container],
            }
            metadata = {"name": name, "namespace": "default", "uid": name} | self._created()
            self._put(codec.convert(Pod, {"metadata": metadata, "spec": spec}))

    def _put(self, pod: Pod) -> None:
        self.pods[pod.metadata.key] = pod
        self.model.set_pod(pod)

    def _remove(self, key: Key) -> None:
        del self.pods[key]
        self.model.remove_pod(key)

    def _delete(self, name: str) -> None:
        for key in [key for key in self.pods if key.name.rpartition("-")[0] == name]:
            self._remove(key)
        self.model.remove_group(native_key(Key("default", name)))
        del self._groups[name]

    def _run_session(self) -> bool:
        """Return True if the session has decided anything."""
        outcome = run_session(self.model, self._configuration, self._now)
        for bind in outcome.binds:
            self._put(objects.with_phase(objects.with_node(self.pods[bind.task], bind.node), "Running"))
        for eviction in outcome.evictions:
            self._remove(eviction.task)
        return bool(outcome.binds or outcome.evictions)

    def _rows(self) -> Iterator[tuple[str, Json]]:
        for name in sorted(self._groups):
            pods = [pod for key, pod in self.pods.items() if key.name.rpartition("-")[0] == name]
            gang = self.model.gangs[native_key(Key("default", name))]
            condition = scheduled_condition(gang.conditions)
            yield (
                name,
                {
                    "bound": sum(bool(pod.node_name) for pod in pods),
                    "scheduled": None if condition is None else condition.status,
                    "disrupted": self._made[name] - len(pods),
                },
            )
