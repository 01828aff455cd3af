"""A small world around the core, built from the notation of ``admission-cases.yaml``.

It does what the controllers do, without a cluster: it stores the objects, feeds the newest form of each to
the core, and writes back what the core decides.  Nothing here knows a rule of admission.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import yaml

from quorate.api import codec
from quorate.api.configuration import (
    AdmissionFairSharingRules,
    Configuration,
    FairSharingRules,
    RequeuingStrategy,
    ResourceRules,
    Transformation,
    WaitForPodsReady,
)
from quorate.api.configuration_gates import queueing_gates
from quorate.api.core import LimitRange, PriorityClass, RuntimeClass
from quorate.api.duration import parse_duration
from quorate.api.kueue import (
    SLICE_REPLACEMENT_FOR,
    Admission,
    AdmissionCheckState,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSetAssignment,
    ReclaimablePod,
    RequeueState,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from quorate.api.meta import Condition, at_epoch, find_condition, is_true
from quorate.api.quantity import Quantity, parse_quantity
from quorate.queueing import conditions as c
from quorate.queueing.cycle import Round
from quorate.queueing.decisions import Decision, Hold, Preempt, Reserve
from quorate.queueing.lifecycle import admit_status as admit
from quorate.queueing.lifecycle import (
    decide_workload,
    finish_status,
    hold_status,
    preempt_status,
    release_status,
)
from quorate.queueing.priority import resolve_priority
from quorate.queueing.readiness import pods_ready
from quorate.queueing.shape import Shape
from quorate.queueing.state import State
from quorate.quota.amount import PODS, as_quantity
from quorate.quota.tree import Node

Json = dict[str, Any]

# The check of a workload that reserves and waits for ever ("state: QuotaReserved").
PENDING_CHECK = "never-ready"
replace = msgspec.structs.replace


class World:
    def __init__(self, given: Json) -> None:
        self.given = given
        self.now = float(given.get("now", 1000))
        self.configuration = read_configuration(given.get("config", {}))
        self.state = State(self.configuration)
        self.workloads: dict[str, Workload] = {}
        self.ready: set[str] = set()  # workloads whose pods are all ready
        self.checked: set[str] = set()  # workloads with a check that is never ready
        self.given_admitted: set[str] = set()
        self._versions = 0
        self._create_surroundings()
        for name in given.get("clusterQueues", {}):
            self.put_cluster_queue(name)
        for workload in given.get("workloads", []):
            if workload.get("create") != "later":
                self.create(workload["name"])
        self.settle()

    # Objects.

    def _create_surroundings(self) -> None:
        given = self.given
        namespaces = {workload.get("namespace", "default") for workload in given.get("workloads", [])}
        for name in sorted({"default", *namespaces, *given.get("namespaces", {})}):
            self.state.put_namespace(name, given.get("namespaces", {}).get(name, {}))
            for index, item in enumerate(given.get("limitRanges", [])):
                limit_range = {
                    "metadata": {"name": f"l{index}", "namespace": name},
                    "spec": {"limits": [item]},
                }
                self.state.put_limit_range(codec.convert(LimitRange, _texts(limit_range)))
        for name, overhead in given.get("runtimeClasses", {}).items():
            runtime_class = {
                "metadata": {"name": name},
                "overhead": {"podFixed": _texts(overhead, "overhead")},
            }
            self.state.put_runtime_class(codec.convert(RuntimeClass, runtime_class))
        flavors = given.get("flavors", [])
        for name in flavors:
            self.put_flavor(name, flavors[name] if isinstance(flavors, dict) else {})
        for name in given.get("cohorts", {}):
            self.put_cohort(name)
        for name in given.get("localQueues", {}):
            for namespace in sorted({"default", *namespaces}):
                self.put_local_queue(namespace, name)

    def put_flavor(self, name: str, spec: Json) -> None:
        self.state.put_flavor(codec.convert(ResourceFlavor, {"metadata": {"name": name}, "spec": spec}))

    def put_cohort(self, name: str) -> None:
        cohort = self.given["cohorts"][name] or {}
        spec = {"parentName": cohort.get("parent") or "", "resourceGroups": resource_groups(cohort)}
        if "weight" in cohort:
            spec["fairSharing"] = {"weight": str(cohort["weight"])}
        self.state.put_cohort(codec.convert(Cohort, {"metadata": {"name": name}, "spec": spec}))

    def put_cluster_queue(self, name: str) -> None:
        queue = self.given["clusterQueues"][name] or {}
        selector = queue.get("namespaceSelector", {})
        spec: Json = {
            "cohortName": queue.get("cohort") or "",
            "queueingStrategy": queue.get("strategy", "BestEffortFIFO"),
            "namespaceSelector": {"matchLabels": selector} if selector is not None else None,
            "stopPolicy": str(queue.get("stopPolicy", "None")),
            "resourceGroups": resource_groups(queue),
        }
        for field in ("preemption", "flavorFungibility"):
            if field in queue:
                spec[field] = queue[field]
        if "weight" in queue:
            spec["fairSharing"] = {"weight": str(queue["weight"])}
        if "admissionMode" in queue:
            spec["admissionScope"] = {"admissionMode": queue["admissionMode"]}
        self.state.put_cluster_queue(codec.convert(ClusterQueue, {"metadata": {"name": name}, "spec": spec}))

    def put_local_queue(self, namespace: str, name: str) -> None:
        queue = self.given.get("localQueues", {}).get(name, {"clusterQueue": name})
        spec = {"clusterQueue": queue["clusterQueue"], "stopPolicy": str(queue.get("stopPolicy", "None"))}
        if "weight" in queue:
            spec["fairSharing"] = {"weight": str(queue["weight"])}
        body: Json = {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
        if "consumed" in queue:
            consumed = {resource: str(amount) for resource, amount in queue["consumed"].items()}
            stored = {"consumedResources": consumed, "lastUpdate": _moment(self.now)}
            body["status"] = {"fairSharing": {"weightedShare": 0, "admissionFairSharingStatus": stored}}
        self.state.put_local_queue(codec.decode(LocalQueue, codec.encode(body)))

    def create(self, name: str) -> None:
        given = self.given_workload(name)
        self.put_queue_of(given)
        workload = replace(self.read_workload(given), status=self.given_status(given))
        if given.get("admitted"):
            self.given_admitted.add(name)
            if given.get("podsReady", True):
                self.ready.add(name)
        self.put(name, workload)

    def put_queue_of(self, given: Json) -> None:
        """Create the LocalQueue that a workload implies by naming it."""
        if given.get("queue", "") not in self.given.get("localQueues", {}):
            self.put_local_queue(given.get("namespace", "default"), given.get("queue", ""))

    def given_workload(self, name: str) -> Json:
        found: list[Json] = [one for one in self.given["workloads"] if one["name"] == name]
        if not found:
            raise KeyError(f"no workload is called {name}")
        return found[0]

    def read_workload(self, given: Json) -> Workload:
        name = given["name"]
        pod_sets = [_pod_set(pod_set) for pod_set in given_pod_sets(given)]
        classes = self.given.get("priorityClasses", {})
        priority = given.get("priority")
        if priority is None:
            resolved = resolve_priority(
                given.get("workloadPriorityClass", ""),
                [pod_set.get("priorityClassName", "") for pod_set in given_pod_sets(given)],
                {
                    name: codec.convert(WorkloadPriorityClass, {"metadata": {"name": name}, "value": value})
                    for name, value in classes.get("workload", {}).items()
                },
                {
                    name: codec.convert(PriorityClass, {"metadata": {"name": name}, **value})
                    for name, value in classes.get("pod", {}).items()
                },
            )
            priority = resolved.value
        body = {
            "metadata": {
                "name": name,
                "namespace": given.get("namespace", "default"),
                "uid": given.get("uid", name),
                "generation": 1,
                "creationTimestamp": _moment(given.get("created", 0)),
                "annotations": _annotations(given),
            },
            "spec": {
                "queueName": given.get("queue", ""),
                "priority": priority,
                "active": given.get("active", True),
                "podSets": pod_sets,
            },
        }
        return codec.decode(Workload, codec.encode(_texts(body)))

    def given_status(self, given: Json) -> WorkloadStatus:
        status = WorkloadStatus(
            reclaimable_pods=tuple(
                ReclaimablePod(name=name, count=count)
                for name, count in given.get("reclaimablePods", {}).items()
            )
        )
        if given.get("requeueState"):
            status = replace(status, requeue_state=_requeue_state(given["requeueState"]))
        if given.get("admitted"):
            status = self._given_admission(given, status)
        for type_, fields in given.get("conditions", {}).items():
            condition = Condition(
                type=type_,
                status=fields.get("status", "True"),
                reason=fields.get("reason", ""),
                message=fields.get("message", ""),
                last_transition_time=at_epoch(fields.get("at", 0)),
            )
            status = replace(status, conditions=c.merged(status.conditions, condition))
        return status

    def _given_admission(self, given: Json, status: WorkloadStatus) -> WorkloadStatus:
        admitted = given["admitted"]
        if isinstance(admitted, str):
            admitted = {"flavor": admitted}
        at = float(admitted.get("at", 0))
        queue = admitted.get("clusterQueue") or self.cluster_queue_of(given)
        requests = {pod_set.name: pod_set for pod_set in self.read_shape(given).pod_sets}
        assignments = []
        for pod_set in given_pod_sets(given):
            shape = requests[pod_set["name"]]
            own = admitted.get("podSets", {}).get(shape.name, {})
            count = own.get("count", pod_set.get("count", 1))
            requested = shape.request(count)
            if self.charges_pods(queue):
                requested[PODS] = count
            flavors = own.get("flavors") or dict.fromkeys(requested, admitted.get("flavor"))
            usage = {
                resource: as_quantity(resource, amount)
                for resource, amount in requested.items()
                if resource in flavors
            }
            assignments.append(
                PodSetAssignment(name=shape.name, flavors=flavors, resource_usage=usage, count=count)
            )
        conditions = [c.condition(c.QUOTA_RESERVED, "True", "QuotaReserved", "", at)]
        checks: tuple[AdmissionCheckState, ...] = ()
        if admitted.get("state") == "QuotaReserved":
            self.checked.add(given["name"])
            checks = (AdmissionCheckState(name=PENDING_CHECK, state="Pending"),)
        else:
            conditions.append(c.condition(c.ADMITTED, "True", "Admitted", "", at))
        ready = bool(given.get("podsReady", True))
        if self.configuration.wait_for_pods_ready is not None:
            reason = "Started" if ready else "WaitForStart"
            conditions.append(c.condition(c.PODS_READY, "True" if ready else "False", reason, "", at))
        return replace(
            status,
            conditions=c.merged(status.conditions, *conditions),
            admission=Admission(cluster_queue=queue, pod_set_assignments=tuple(assignments)),
            admission_checks=checks,
        )

    def read_shape(self, given: Json) -> Shape:
        return self.state.shapes.of(self.read_workload(given))

    def charges_pods(self, cluster_queue: str) -> bool:
        queue = self.state.cluster_queues.get(cluster_queue)
        return queue is not None and PODS in queue.groups

    def cluster_queue_of(self, given: Json) -> str:
        queue = given.get("queue", "")
        local_queue = self.given.get("localQueues", {}).get(queue, {"clusterQueue": queue})
        name: str = local_queue["clusterQueue"]
        return name

    def node(self, name: str) -> Node:
        return self.state.quota.queues.get(name) or self.state.quota.cohorts[name]

    # Writing, as the API server and the controllers would.

    def put(self, name: str, workload: Workload) -> None:
        self._versions += 1
        metadata = replace(workload.metadata, resource_version=str(self._versions))
        self.workloads[name] = replace(workload, metadata=metadata)
        self.state.put_workload(self.workloads[name], self.now)

    def put_status(self, name: str, status: WorkloadStatus | None) -> bool:
        if status is None or status == self.workloads[name].status:
            return False
        self.put(name, replace(self.workloads[name], status=status))
        return True

    def respecify(self, name: str, **changes: Any) -> None:
        workload = self.workloads[name]
        metadata = replace(workload.metadata, generation=workload.metadata.generation + 1)
        self.put(name, replace(workload, metadata=metadata, spec=replace(workload.spec, **changes)))

    def settle(self) -> None:
        """Let the controllers do what is to be done at this moment."""
        self.state.sample_past_use(self.now)
        for _ in range(100):
            changed = [name for name in list(self.workloads) if self._step(name)]
            if not changed and not self._resume():
                self.state.settle_wakes()  # what happened counts at once: no batching here
                return
        raise AssertionError("the controllers do not come to rest")

    def _step(self, name: str) -> bool:
        workload = self.workloads[name]
        if self.configuration.wait_for_pods_ready is not None and c.is_reserving(workload):
            condition = pods_ready(workload, name in self.ready, self.now)
            if condition is not None:
                conditions = c.merged(workload.status.conditions, condition)
                return self.put_status(name, replace(workload.status, conditions=conditions))
        transition = self.decide(name)
        if transition.deactivate:
            self.respecify(name, active=False)
            return True
        return self.put_status(name, transition.status)

    def decide(self, name: str) -> Any:
        workload = self.workloads[name]
        view = self.state.queue_view(workload)
        if name in self.checked and view.cluster_queue is not None:
            checks = (*view.cluster_queue.checks, PENDING_CHECK)
            view = replace(view, cluster_queue=replace(view.cluster_queue, checks=checks))
        return decide_workload(workload, view, self.configuration, self.now, 0.0)

    def _resume(self) -> bool:
        suspended = self.state.suspended
        if suspended is None or self.state.unready:
            return False
        self.carry_out(suspended.run(self.now))
        return True

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            name = decision.key.name
            match decision:
                case Reserve():
                    admitted = decision.admitted and name not in self.checked
                    reserve = replace(decision, admitted=admitted)
                    self.put_status(name, admit(self.workloads[name], reserve, self.now))
                case Hold():
                    self.put_status(name, hold_status(self.workloads[name], decision, self.now))
                case Preempt():
                    self.put_status(name, preempt_status(self.workloads[name], decision, self.now))

    # Steps.

    def run(self, step: Any) -> None:
        kind: str
        argument: Any
        kind, argument = (step, None) if isinstance(step, str) else next(iter(step.items()))
        match kind:
            case "cycle":
                self.cycle(argument)
            case "create":
                for name in argument:
                    self.create(name)
            case "finish":
                for name in argument:
                    self.put_status(name, finish_status(self.workloads[name], "Succeeded", "", self.now))
            case "delete":
                for name in argument:
                    self.state.remove_workload(self.workloads.pop(name).metadata.key)
            case "evictionDone":
                for name in argument:
                    self.ready.discard(name)
                    self.put_status(name, release_status(self.workloads[name], self.now))
            case "advance":
                self.advance(self.now + seconds(argument))
            case "podsReady":
                for name, ready in argument.items():
                    (self.ready.add if ready else self.ready.discard)(name)
            case "active":
                for name, active in argument.items():
                    self.respecify(name, active=active)
            case "reclaim":
                for name, counts in argument.items():
                    pods = tuple(ReclaimablePod(name=pod_set, count=n) for pod_set, n in counts.items())
                    self.put_status(name, replace(self.workloads[name].status, reclaimable_pods=pods))
            case "flush":
                self.state.wake(self.state.cluster_queues[argument])
            case "update":
                self.update(argument)
            case _:
                raise ValueError(f"{kind!r} is no step")
        self.settle()

    def cycle(self, argument: Any) -> None:
        times = argument if isinstance(argument, int) else 1
        steps = argument.get("mid", []) if isinstance(argument, dict) else []
        for _ in range(times):
            if self.state.suspended is not None:
                return
            self.state.settle_wakes()
            round_ = Round(self.state, self.state.cluster_queues.values())
            self.carry_out(round_.process(self.now))
            for step in steps:
                self.run(step)
            if self.state.suspended is not round_:
                round_.requeue()
            self.settle()

    def advance(self, until: float) -> None:
        """Move the clock, stopping at each moment some controller asked to be woken."""
        while True:
            alarms = [self.decide(name).wake_at for name in self.workloads]
            alarms.append(self.state.sample_past_use(self.now))
            due = [alarm for alarm in alarms if alarm is not None and alarm <= until]
            self.now = max(self.now, min(due)) if due else until
            self.settle()
            if self.now >= until:
                return

    def update(self, changes: Json) -> None:
        for kind, objects in changes.items():
            for name, fields in objects.items():
                match kind:
                    case "clusterQueues":
                        queues = self.given.setdefault("clusterQueues", {})
                        queues[name] = {**(queues.get(name) or {}), **fields}
                        self.put_cluster_queue(name)
                    case "cohorts":
                        cohorts = self.given.setdefault("cohorts", {})
                        cohorts[name] = {**(cohorts.get(name) or {}), **fields}
                        self.put_cohort(name)
                    case "localQueues":
                        queues = self.given.setdefault("localQueues", {})
                        queues[name] = {**queues.get(name, {"clusterQueue": name}), **fields}
                        for key in list(self.state.local_queues):
                            if key.name == name:
                                self.put_local_queue(key.namespace, name)
                    case "workloads":
                        given = self.given_workload(name)
                        if {"requests", "count"} & fields.keys():
                            given.pop("podSets", None)  # the shorthand replaces them
                        if "workloadPriorityClass" in fields:
                            given.pop("priority", None)
                        given.update(fields)
                        self.put_queue_of(given)
                        new = self.read_workload(given)
                        self.respecify(
                            name,
                            **{field: getattr(new.spec, field) for field in new.spec.__struct_fields__},
                        )
                    case "flavors":
                        self.put_flavor(name, fields)
                    case "namespaces":
                        self.state.put_namespace(name, fields)
                    case _:
                        raise ValueError(f"{kind!r} cannot be updated")

    # What became of it.

    def shape(self, name: str) -> Shape:
        return self.state.shapes.of(self.workloads[name])

    def requested(self, name: str) -> dict[str, dict[str, int]]:
        """By pod set, what it counts: what was recorded, for one that reserves, less reclaimed pods."""
        admission = self.workloads[name].status.admission
        taken = {pods.name: pods for pods in admission.pod_set_assignments} if admission is not None else {}
        requested = {}
        for pod_set in self.shape(name).pod_sets:
            count = pod_set.count
            if pod_set.name in taken:
                count = min(count, taken[pod_set.name].count or 0)
            requested[pod_set.name] = pod_set.request(count)
            if pod_set.name in taken and PODS in taken[pod_set.name].flavors:
                requested[pod_set.name][PODS] = count
        return requested

    def condition(self, name: str, type_: str) -> Condition | None:
        if name not in self.workloads:
            self.given_workload(name)  # it is deleted, or to be created later; unknown names are refused
            return None
        return find_condition(self.workloads[name].status.conditions, type_)

    def admitted(self) -> dict[str, Admission]:
        """Who holds quota that did not at the beginning."""
        return {
            name: workload.status.admission
            for name, workload in self.workloads.items()
            if name not in self.given_admitted
            and workload.status.admission is not None
            and is_true(workload.status.conditions, c.QUOTA_RESERVED)
            and not c.is_finished(workload)
        }

    def preempted(self) -> dict[str, str]:
        result = {}
        for name in self.workloads:
            evicted, preempted = self.condition(name, c.EVICTED), self.condition(name, c.PREEMPTED)
            if evicted is not None and (evicted.status, evicted.reason) == ("True", "Preempted"):
                result[name] = preempted.reason if preempted is not None else ""
        return result


def read_configuration(config: Json) -> Configuration:
    resources = config.get("resources", {})
    wait, fair = config.get("waitForPodsReady"), config.get("fairSharing")
    turns, gates = config.get("admissionFairSharing"), config.get("featureGates", {})
    if gates.get("DisableWaitForPodsReady"):
        wait = None
    return Configuration(
        admission_fair_sharing=None if turns is None else read_admission_fair_sharing(turns),
        gates=queueing_gates(gates),
        fair_sharing=None if fair is None else read_fair_sharing(fair),
        wait_for_pods_ready=None if wait is None else read_wait_for_pods_ready(wait),
        resources=ResourceRules(
            exclude_resource_prefixes=tuple(resources.get("excludeResourcePrefixes", ())),
            transformations=tuple(
                Transformation(
                    input=rule["input"],
                    strategy=rule.get("strategy", "Retain"),
                    multiply_by=rule.get("multiplyBy", ""),
                    outputs=quantities(rule.get("outputs", {})),
                )
                for rule in resources.get("transformations", ())
            ),
            quota_check_strategy=resources.get("quotaCheckStrategy", "BlockUndeclared"),
        ),
    )


def read_fair_sharing(fair: Json) -> FairSharingRules:
    if "preemptionStrategies" not in fair:
        return FairSharingRules()
    return FairSharingRules(preemption_strategies=tuple(fair["preemptionStrategies"]))


def read_admission_fair_sharing(turns: Json) -> AdmissionFairSharingRules:
    return AdmissionFairSharingRules(
        usage_half_life_s=seconds(turns.get("usageHalfLifeTime", 0)),
        usage_sampling_interval_s=seconds(turns.get("usageSamplingInterval", "5m")),
        resource_weights={
            resource: float(weight) for resource, weight in turns.get("resourceWeights", {}).items()
        },
    )


def read_wait_for_pods_ready(wait: Json) -> WaitForPodsReady:
    timeout_s = seconds(wait.get("timeout", "30m"))
    recovery_s = seconds(wait["recoveryTimeout"]) if "recoveryTimeout" in wait else timeout_s
    strategy = wait.get("requeuingStrategy", {})
    return WaitForPodsReady(
        timeout_s=timeout_s,
        recovery_timeout_s=recovery_s or None,
        block_admission=wait.get("blockAdmissionScope", "AllQueues") if wait.get("blockAdmission") else None,
        requeuing_strategy=RequeuingStrategy(
            timestamp=strategy.get("timestamp", "Eviction"),
            backoff_limit_count=strategy.get("backoffLimitCount"),
            backoff_base_s=strategy.get("backoffBaseSeconds", 60),
            backoff_max_s=strategy.get("backoffMaxSeconds", 3600),
        ),
    )


def resource_groups(given: Json) -> list[Json]:
    groups = given.get("resourceGroups")
    if groups is None and "quota" in given:
        flavors = [
            {"name": name, "quotas": quotas} for entry in given["quota"] for name, quotas in entry.items()
        ]
        covered = list(dict.fromkeys(resource for flavor in flavors for resource in flavor["quotas"]))
        groups = [{"covered": covered, "flavors": flavors}]
    return [
        {
            "coveredResources": group["covered"],
            "flavors": [
                {
                    "name": flavor["name"],
                    "resources": [_quota(resource, quota) for resource, quota in flavor["quotas"].items()],
                }
                for flavor in group["flavors"]
            ],
        }
        for group in groups or []
    ]


def _quota(resource: str, quota: Any) -> Json:
    if not isinstance(quota, dict):
        quota = {"nominal": quota}
    result = {"name": resource, "nominalQuota": str(quota.get("nominal", 0))}
    for field in ("borrowingLimit", "lendingLimit"):
        if quota.get(field) is not None:
            result[field] = str(quota[field])
    return result


def given_pod_sets(given: Json) -> list[Json]:
    pod_sets = given.get("podSets") or [
        {"requests": given.get("requests", {}), "count": given.get("count", 1)}
    ]
    return [{"name": "main", **pod_set} for pod_set in pod_sets]


def _pod_set(given: Json) -> Json:
    pod = given.get("pod") or {"containers": [{"requests": given.get("requests", {})}]}
    spec: Json = {
        "containers": [_container(container) for container in pod.get("containers", [])],
        "initContainers": [_container(container) for container in pod.get("initContainers", [])],
        "nodeSelector": given.get("nodeSelector", {}),
        "tolerations": given.get("tolerations", []),
        "priorityClassName": given.get("priorityClassName", ""),
    }
    for field in ("overhead", "runtimeClassName"):
        if field in pod:
            spec[field] = pod[field]
    if "resources" in pod:
        resources = pod["resources"]
        keyed = "requests" in resources or "limits" in resources
        spec["resources"] = resources if keyed else {"requests": resources}
    if "nodeAffinityRequired" in given:
        terms = [{"matchExpressions": term} for term in given["nodeAffinityRequired"]]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    pod_set = {"name": given["name"], "count": given.get("count", 1), "template": {"spec": spec}}
    if given.get("minCount") is not None:
        pod_set["minCount"] = given["minCount"]
    return pod_set


def _container(given: Json) -> Json:
    resources = {field: given[field] for field in ("requests", "limits") if field in given}
    container: Json = {"resources": resources}
    if "restartPolicy" in given:
        container["restartPolicy"] = given["restartPolicy"]
    return container


def _texts(value: Any, inside: str = "") -> Any:
    """Quantities as text, as the API would have them; YAML reads a bare 2 as a number."""
    if isinstance(value, Mapping):
        return {
            key: str(entry) if inside in _QUANTITIES else _texts(entry, key) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [_texts(entry) for entry in value]
    return value


_QUANTITIES = frozenset({"requests", "limits", "overhead", "default", "defaultRequest"})


def _annotations(given: Json) -> Json:
    if "replaces" not in given:
        return {}
    return {SLICE_REPLACEMENT_FOR: f"{given.get('namespace', 'default')}/{given['replaces']}"}


def _requeue_state(given: Json) -> RequeueState:
    at = given.get("requeueAt")
    return RequeueState(count=given.get("count"), requeue_at=None if at is None else at_epoch(at))


def _moment(seconds_: float) -> str:
    return at_epoch(seconds_).isoformat().replace("+00:00", "Z")


def quantities(given: Json) -> dict[str, Quantity]:
    return {name: parse_quantity(str(value)) for name, value in given.items()}


def seconds(text: Any) -> float:
    """A duration such as 60s, 5m or 168h; a bare number is seconds."""
    return parse_duration(text) if isinstance(text, str) else float(text)


def read_vectors(text: str) -> list[Json]:
    vectors: list[Json] = yaml.load(text, Loader=yaml.CSafeLoader)["vectors"]
    return vectors
