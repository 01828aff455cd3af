"""A cluster in memory for the gang core, with controllers, kubelets and sessions."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, find_condition
from quorate.api.quorate import Reservation
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.api.volcano import PodGroup, PodGroupStatus
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Outcome
from quorate.gang.session.session import Session
from quorate.gang.session_opening import NO_STOPWATCH, Stopwatch, open_session
from quorate.gang.session_run import run_session
from tests.gang import objects

Json = dict[str, Any]


def name_of(key: Key) -> str:
    """Return the name in vectors: with the namespace unless that is "default"."""
    return key.name if key.namespace == "default" else str(key)


def key_of(name: str) -> Key:
    namespace, slash, rest = name.partition("/")
    return Key(namespace, rest) if slash else Key("default", name)


def _key_of(given: Json) -> Key:
    return Key(given.get("namespace", "default"), given["name"])


class World:
    """The cluster.  ``restarting`` builds the model anew before every session, like a new leader."""

    def __init__(
        self, given: Mapping[str, Any], settings: SchedulerConfiguration, *, restarting: bool
    ) -> None:
        self.settings = settings
        self.now = float(given.get("now", 1000))
        self._restarting = restarting
        self._classes: dict[str, int] = given.get("priorityClasses", {})
        self._default_priority: int = given.get("defaultPriority", 0)
        self.nodes = {node["name"]: objects.node(node) for node in given.get("nodes", [])}
        self.hyper_nodes = {each["name"]: objects.hyper_node(each) for each in given.get("hyperNodes", [])}
        self._queues: dict[str, Json] = {
            queue["name"]: queue for queue in given.get("queues", [{"name": "default"}])
        }
        self._quotas: dict[Key, Json] = {_key_of(quota): quota for quota in given.get("quotas", [])}
        self.pods: dict[Key, Pod] = {}
        self.groups: dict[Key, PodGroup] = {}
        self.reservations: list[Reservation] = []
        self._delayed: list[Pod] = []
        self._replaced = 0  # how often evicted pods were replaced
        self.model = self.fresh_model()
        for group in given.get("podGroups", []):
            self.put_group(objects.pod_group(group))
        for pods in given.get("pods", []):
            self.put_pods(objects.pods(pods, self._classes))
        for pods in given.get("delayedPods", []):
            self._delayed.extend(objects.pods(pods, self._classes))

        self.binds: dict[str, str] = {}
        self.evictions: list[str] = []
        self.pipelined: dict[str, str] = {}
        self.created: list[str] = []
        self.bound_for: Counter[str] = Counter()
        self.evicted_from: Counter[str] = Counter()

    def copied(self) -> "World":
        """Return a world that stays as it is in the next session of this one."""
        world = copy(self)
        world.groups, world.pods = self.groups.copy(), self.pods.copy()
        return world

    def fresh_model(self) -> Model:
        model = Model(schedulers=(objects.OUR_SCHEDULER, "quorate"))
        for node in self.nodes.values():
            model.set_node(node)
        for hyper_node in self.hyper_nodes.values():
            model.set_hyper_node(hyper_node)
        for name, value in self._classes.items():
            model.set_priority_class(objects.priority_class(name, value))
        if self._default_priority:
            model.set_priority_class(
                objects.priority_class("the-default", self._default_priority, default=True)
            )
        for queue in self._queues.values():
            model.set_queue(objects.queue(queue))
        for quota in self._quotas.values():
            model.set_quota(objects.quota(quota))
        for reservation in self.reservations:
            model.set_reservation(reservation)
        for group in self.groups.values():
            model.set_group(group)
        for pod in self.pods.values():
            model.set_pod(pod)
        return model

    # Objects.

    def put_group(self, group: PodGroup) -> None:
        self.groups[group.metadata.key] = group
        self.model.set_group(group)

    def put_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.pods[pod.metadata.key] = pod
            self.model.set_pod(pod)

    def remove_pods(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            del self.pods[key]
            self.model.remove_pod(key)

    def _set_hyper_node(self, given: Json) -> None:
        hyper_node = self.hyper_nodes[given["name"]] = objects.hyper_node(given)
        self.model.set_hyper_node(hyper_node)

    # Operations of a step, by name.

    def do(self, operation: str, argument: Any) -> None:
        operations: Mapping[str, Callable[[Any], None]] = {
            "controller": self._create_pods,
            "start": self._start,
            "reap": lambda names: self.remove_pods(
                key for key in self._named(names) if self.pods[key].metadata.deletion_timestamp
            ),
            "replace": lambda _: self._replace_evicted(),
            "finish": lambda told: self._finish(self._named(told["pods"]), told.get("result", "Succeeded")),
            "advance": self._advance,
            "addPods": self._add_pods,
            "setHyperNode": self._set_hyper_node,
            "delayPods": self._delay_pods,
            "addPodGroups": self._add_groups,
            "setGroupQuota": self._set_group_quota,
            "addNodes": self._add_nodes,
            "removeNodes": self._remove_nodes,
            "deletePods": lambda names: self.remove_pods(self._named(names)),
            "deletePodGroups": self._remove_groups,
            "setQueue": self._set_queue,
            "setQuota": self._set_quota,
        }
        operations[operation](argument)

    def _named(self, names: Any) -> list[Key]:
        return list(self.pods) if names in (None, "all") else [key_of(name) for name in names]

    def _create_pods(self, _: Any) -> None:
        may = {
            group.metadata.key for group in self.groups.values() if group.status.phase not in ("", "Pending")
        }
        due = [pod for pod in self._delayed if _group_of(pod) in may]
        self._delayed = [pod for pod in self._delayed if _group_of(pod) not in may]
        self.put_pods(due)
        self.created = [name_of(pod.metadata.key) for pod in due]

    def _start(self, names: Any) -> None:
        due = (self.pods[key] for key in self._named(names))
        self.put_pods(
            [objects.started(pod, self.now) for pod in due if pod.node_name and pod.status.phase == "Pending"]
        )

    def _replace_evicted(self) -> None:
        """Have evicted pods leave, and their controllers create new ones."""
        self._replaced += 1
        leaving = [pod for key, pod in sorted(self.pods.items()) if pod.metadata.deletion_timestamp]
        self.remove_pods(pod.metadata.key for pod in leaving)
        self.put_pods(objects.created_again(pod, self._replaced) for pod in leaving)

    def _finish(self, keys: Iterable[Key], result: str) -> None:
        self.put_pods([objects.with_phase(self.pods[key], result) for key in keys])

    def _advance(self, seconds: float) -> None:
        self.now += seconds

    def _add_pods(self, given: list[Json]) -> None:
        for pods in given:
            self.put_pods(objects.pods(pods, self._classes))

    def _delay_pods(self, pods: list[Json]) -> None:
        """Have an operator create the pods as soon as their group may have pods."""
        for pod in pods:
            self._delayed.extend(objects.pods(pod, self._classes))

    def _add_groups(self, groups: list[Json]) -> None:
        for group in groups:
            self.put_group(objects.pod_group(group))

    def _add_nodes(self, nodes: list[Json]) -> None:
        for given in nodes:
            self.nodes[given["name"]] = objects.node(given)
            self.model.set_node(self.nodes[given["name"]])

    def _remove_nodes(self, names: list[str]) -> None:
        for name in names:
            del self.nodes[name]
            self.remove_pods(key for key, pod in self.pods.items() if pod.node_name == name)
            self.model.remove_node(name)

    def _remove_groups(self, names: list[str]) -> None:
        for key in map(key_of, names):
            del self.groups[key]
            self.model.remove_group(key)

    def _set_group_quota(self, change: Json) -> None:
        self.put_group(objects.with_quota(self.groups[_key_of(change)], change))

    def _set_queue(self, change: Json) -> None:
        merged = self._queues.get(change["name"], {}) | change
        self._queues[change["name"]] = merged
        self.model.set_queue(objects.queue(merged))

    def _set_quota(self, change: Json) -> None:
        merged = self._quotas.get(_key_of(change), {}) | change
        self._quotas[_key_of(change)] = merged
        self.model.set_quota(objects.quota(merged))

    # Sessions.

    def start_step(self) -> None:
        self.binds, self.evictions, self.pipelined = {}, [], {}
        self.bound_for.clear()
        self.evicted_from.clear()

    def open_session(self) -> Session:
        """Open a session over the objects, before any action."""
        return open_session(self.fresh_model(), self.settings, self.now)

    def session(self, stopwatch: Stopwatch = NO_STOPWATCH) -> Outcome:
        if self._restarting:
            self.model = self.fresh_model()
        outcome = run_session(self.model, self.settings, self.now, stopwatch)
        for bind in outcome.binds:
            self.put_pods([objects.with_node(self.pods[bind.task], bind.node)])
            self.binds[name_of(bind.task)] = bind.node
            self.bound_for[name_of(bind.gang)] += 1
        for eviction in outcome.evictions:
            self.put_pods([objects.leaving(self.pods[eviction.task], self.now)])
            self.evictions.append(name_of(eviction.task))
            self.evicted_from[name_of(eviction.gang)] += 1
        for nomination in outcome.nominations:
            self.put_pods([objects.with_nomination(self.pods[nomination.task], nomination.node)])
        for status in outcome.statuses:
            group = self.groups[status.gang]
            noted = {**group.metadata.annotations, **status.admission.annotations()}
            kept = {name: value for name, value in noted.items() if value is not None}
            metadata = msgspec.structs.replace(group.metadata, annotations=kept)
            written = PodGroupStatus(
                phase=status.phase,
                conditions=status.conditions,
                running=status.counts.running,
                succeeded=status.counts.succeeded,
                failed=status.counts.failed,
            )
            self.put_group(msgspec.structs.replace(group, metadata=metadata, status=written))
        self.pipelined = {name_of(key): node for key, node in outcome.pipelined.items()}
        return outcome

    # Results, in the notation of the vectors.

    def condition(self, group: str, type_: str) -> str | None:
        """Return the reason of Unschedulable or the status of Scheduled; None if it is not true."""
        condition = find_condition(self.groups[key_of(group)].status.conditions, type_)
        if condition is None or condition.status != "True":
            return None
        return condition.reason if type_ == "Unschedulable" else condition.status

    def counts(self, group: str) -> dict[str, int]:
        status = self.groups[key_of(group)].status
        return {"running": status.running, "succeeded": status.succeeded, "failed": status.failed}

    def message(self, group: str) -> str:
        """Return the message of Unschedulable, or "" if that is not true."""
        condition = find_condition(self.groups[key_of(group)].status.conditions, "Unschedulable")
        return condition.message if condition is not None and condition.status == "True" else ""

    def placed(self, group: str) -> int:
        """Return how many pods have a node and stay."""
        key = key_of(group)
        pods = [pod for pod in self.pods.values() if pod.node_name and not pod.metadata.deletion_timestamp]
        return sum(_group_of(pod) == key for pod in pods)

    def phase(self, group: str) -> str:
        return self.groups[key_of(group)].status.phase


def _group_of(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.annotations["scheduling.k8s.io/group-name"])
