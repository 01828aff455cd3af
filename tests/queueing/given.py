"""The given objects of a case: stored, and applied to a state."""

from typing import Any

import msgspec

from quorate.api import codec
from quorate.api.core import LimitRange, PriorityClass, RuntimeClass
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node as ClusterNode
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from quorate.api.kueue import (
    Admission,
    AdmissionCheck,
    AdmissionCheckSpec,
    AdmissionCheckState,
    AdmissionCheckStatus,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    ReclaimablePod,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.kueue.topology import HOSTNAME, Topology, TopologyAssignment, topology_assignment
from quorate.api.meta import Condition, Key, ObjectMeta, at_epoch
from quorate.api.names.kueue import PRIORITY_CLASS
from quorate.api.quorate import Reservation
from quorate.controllers.jobframework.construct_workload import Priority, resolve_priority
from quorate.placement.resources import in_base_units
from quorate.queueing import conditions as c
from quorate.queueing.nodes.topology_flavors import NODE_FIT
from quorate.queueing.pending.shape import Shape
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.quota.amount import PODS, as_quantity
from quorate.quota.tree import Node
from tests.queueing.notation import (
    Json,
    a_pod_set,
    annotations_of,
    as_texts,
    given_pod_sets,
    moment,
    pod_on_node,
    quantities,
    read_configuration,
    requeue_state_of,
    resource_groups,
)

# The admission check of a workload that is never admitted ("state: QuotaReserved").
PENDING_CHECK = "never-ready"
replace = msgspec.structs.replace


class GivenWorld:
    """The objects of a case.  It stores every write and applies the newest object to the state."""

    def __init__(self, given: Json) -> None:
        self.given = given
        self.now = float(given.get("now", 1000))
        self.configuration = read_configuration(given.get("config", {}))
        self.state = State(self.configuration)
        self.admission_cycle = AdmissionCycle(self.state)
        self.workloads: dict[str, Workload] = {}
        self.ready: set[str] = set()  # workloads with all pods ready
        self.checked: set[str] = set()  # workloads with a check that is never ready
        self.given_admitted: set[str] = set()
        self._versions = 0
        self._create_cluster_objects()
        for name in given.get("clusterQueues", {}):
            self.put_cluster_queue(name)
        for workload in given.get("workloads", []):
            if workload.get("create") != "later":
                self.create(workload["name"])

    # Objects.

    def _create_cluster_objects(self) -> None:
        given = self.given
        namespaces = {workload.get("namespace", "default") for workload in given.get("workloads", [])}
        for name in sorted({"default", *namespaces, *given.get("namespaces", {})}):
            self.state.put_namespace(name, given.get("namespaces", {}).get(name, {}))
            for index, item in enumerate(given.get("limitRanges", [])):
                self.put_limit_range(Key(name, f"l{index}"), item)
        for name, overhead in given.get("runtimeClasses", {}).items():
            runtime_class = {
                "metadata": {"name": name},
                "overhead": {"podFixed": as_texts(overhead, "overhead")},
            }
            self.state.request_updates.put_runtime_class(codec.convert(RuntimeClass, runtime_class))
        flavors = given.get("flavors", [])
        for name in flavors:
            self.put_flavor(name, flavors[name] if isinstance(flavors, dict) else {})
        for name, reservation in given.get("reservations", {}).items():
            self.put_reservation(name, reservation)
        for name, topology in given.get("topologies", {}).items():
            self.put_topology(name, topology)
        for name in given.get("nodes", {}):
            self.put_node(name)
        for name, pod in given.get("pods", {}).items():
            self.put_pod(name, pod)
        for name, claim in given.get("claims", {}).items():
            self.put_claim(name, claim)
        for name, volume in given.get("volumes", {}).items():
            self.state.nodes.constraints.storage.set_volume(
                codec.convert(PersistentVolume, {"metadata": {"name": name}} | volume)
            )
        for name, class_ in given.get("storageClasses", {}).items():
            self.state.nodes.constraints.storage.set_class(
                codec.convert(StorageClass, {"metadata": {"name": name}} | class_)
            )
        for name, check in given.get("admissionChecks", {}).items():
            self.put_admission_check(name, check)
        for name in given.get("cohorts", {}):
            self.put_cohort(name)
        for name in given.get("localQueues", {}):
            for namespace in sorted({"default", *namespaces}):
                self.put_local_queue(namespace, name)

    def put_limit_range(self, key: Key, item: Json) -> None:
        metadata = {"name": key.name, "namespace": key.namespace}
        limit_range = {"metadata": metadata, "spec": {"limits": [item]}}
        self.state.request_updates.put_limit_range(codec.convert(LimitRange, as_texts(limit_range)))

    def put_topology(self, name: str, fields: Json) -> None:
        levels = [{"nodeLabel": level} for level in fields["levels"]]
        topology = {"metadata": {"name": name}, "spec": {"levels": levels}}
        self.state.put_topology(codec.convert(Topology, topology))

    def put_reservation(self, name: str, item: Json) -> None:
        """Put a reservation: ``amounts`` by flavor, times in epoch seconds, other fields as in its spec."""
        times = {field: at_epoch(item[field]).isoformat() for field in ("start", "end")}
        amounts = [
            {"flavor": flavor, "resources": as_texts(resources, "amounts")}
            for flavor, resources in item["amounts"].items()
        ]
        body = {"metadata": {"name": name}, "spec": {**item, **times, "amounts": amounts}}
        self.state.put_window(codec.convert(Reservation, body))

    def put_flavor(self, name: str, spec: Json) -> None:
        metadata: Json = {"name": name}
        if "nodeFit" in spec:
            metadata["annotations"] = {NODE_FIT: spec["nodeFit"]}
        self.state.put_flavor(codec.convert(ResourceFlavor, {"metadata": metadata, "spec": spec}))

    def put_node(self, name: str) -> None:
        given = self.given["nodes"][name]
        ready = "True" if given.get("ready", True) else "False"
        node = {
            "metadata": {"name": name, "labels": {HOSTNAME: name, **given.get("labels", {})}},
            "spec": {
                "taints": given.get("taints", []),
                "unschedulable": given.get("unschedulable", False),
            },
            "status": {
                "allocatable": {key: str(amount) for key, amount in given.get("allocatable", {}).items()},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }
        self.state.nodes.retry_flavors(self.state.nodes.put_node(codec.convert(ClusterNode, node)))
        if given.get("nonTASUsage"):
            used = in_base_units(quantities({PODS: 1, **given["nonTASUsage"]}))
            self.state.ledger.topology.put_unreadable_pod(Key("others", name), name, used)

    def put_pod(self, name: str, given: Json) -> None:
        self.state.nodes.retry_flavors(self.state.nodes.put_pod(codec.convert(Pod, pod_on_node(name, given))))

    def put_claim(self, name: str, given: Json) -> None:
        claim = {"metadata": {"name": name, "namespace": "default"}, **given}
        nodes = self.state.nodes
        nodes.constraints.put_claim(codec.convert(PersistentVolumeClaim, claim))
        nodes.retry_flavors(nodes.placing)

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
        if "admissionChecks" in queue:
            checks = [each if isinstance(each, dict) else {"name": each} for each in queue["admissionChecks"]]
            spec["admissionChecksStrategy"] = {"admissionChecks": checks}
            for check in checks if "admissionChecks" not in self.given else ():
                self.put_admission_check(check["name"], {})
        if "admissionMode" in queue:
            spec["admissionScope"] = {"admissionMode": queue["admissionMode"]}
        metadata: Json = {"name": name}
        if "annotations" in queue:
            metadata["annotations"] = {
                f"quorate.dev/{key}": text for key, text in queue["annotations"].items()
            }
        self.state.put_cluster_queue(codec.convert(ClusterQueue, {"metadata": metadata, "spec": spec}))

    def put_admission_check(self, name: str, given: Json) -> None:
        is_active = given.get("active", True)
        active = c.new_condition("Active", "True" if is_active else "False", "Active", "", self.now)
        check = AdmissionCheck(
            metadata=ObjectMeta(name=name),
            spec=AdmissionCheckSpec(controller_name=given.get("controller", PROVISIONING)),
            status=AdmissionCheckStatus(conditions=(active,)),
        )
        self.state.put_admission_check(check)

    def put_local_queue(self, namespace: str, name: str) -> None:
        queue = self.given.get("localQueues", {}).get(name, {"clusterQueue": name})
        spec = {"clusterQueue": queue["clusterQueue"], "stopPolicy": str(queue.get("stopPolicy", "None"))}
        if "weight" in queue:
            spec["fairSharing"] = {"weight": str(queue["weight"])}
        body: Json = {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
        if "consumed" in queue:
            consumed = {resource: str(amount) for resource, amount in queue["consumed"].items()}
            stored = {"consumedResources": consumed, "lastUpdate": moment(self.now)}
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
        """Create the LocalQueue of a workload if the case does not declare it."""
        if given.get("queue", "") not in self.given.get("localQueues", {}):
            self.put_local_queue(given.get("namespace", "default"), given.get("queue", ""))

    def given_workload(self, name: str) -> Json:
        found: list[Json] = [one for one in self.given["workloads"] if one["name"] == name]
        if not found:
            raise KeyError(f"no workload is called {name}")
        return found[0]

    def read_workload(self, given: Json) -> Workload:
        name = given["name"]
        pod_sets = [a_pod_set(pod_set) for pod_set in given_pod_sets(given)]
        classes = self.given.get("priorityClasses", {})
        priority = given.get("priority")
        if priority is None:
            resolved = resolve_priority(
                {PRIORITY_CLASS: given.get("workloadPriorityClass", "")},
                None,
                [codec.decode(PodSet, codec.encode(as_texts(each))) for each in pod_sets],
                {
                    name: codec.convert(WorkloadPriorityClass, {"metadata": {"name": name}, "value": value})
                    for name, value in classes.get("workload", {}).items()
                },
                {
                    name: codec.convert(PriorityClass, {"metadata": {"name": name}, **value})
                    for name, value in classes.get("pod", {}).items()
                },
            )
            assert isinstance(resolved, Priority), f"{name}: {resolved}"
            priority = resolved.value
        body = {
            "metadata": {
                "name": name,
                "namespace": given.get("namespace", "default"),
                "uid": given.get("uid", name),
                "generation": 1,
                "creationTimestamp": moment(given.get("created", 0)),
                "annotations": annotations_of(given),
            },
            "spec": {
                "queueName": given.get("queue", ""),
                "priority": priority,
                "active": given.get("active", True),
                "podSets": pod_sets,
                "maximumExecutionTimeSeconds": given.get("maximumExecutionTimeSeconds"),
            },
        }
        return codec.decode(Workload, codec.encode(as_texts(body)))

    def given_status(self, given: Json) -> WorkloadStatus:
        status = WorkloadStatus(
            reclaimable_pods=tuple(
                ReclaimablePod(name=name, count=count)
                for name, count in given.get("reclaimablePods", {}).items()
            )
        )
        if given.get("requeueState"):
            status = replace(status, requeue_state=requeue_state_of(given["requeueState"]))
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
            status = replace(status, conditions=c.with_conditions(status.conditions, condition))
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
                PodSetAssignment(
                    name=shape.name,
                    flavors=flavors,
                    resource_usage=usage,
                    count=count,
                    topology_assignment=self._given_places(flavors, own.get("topology")),
                )
            )
        conditions = [c.new_condition(c.QUOTA_RESERVED, "True", "QuotaReserved", "", at)]
        checks: tuple[AdmissionCheckState, ...] = ()
        if admitted.get("state") == "QuotaReserved":
            self.checked.add(given["name"])
            checks = (AdmissionCheckState(name=PENDING_CHECK, state="Pending"),)
        else:
            conditions.append(c.new_condition(c.ADMITTED, "True", "Admitted", "", at))
        ready = bool(given.get("podsReady", True))
        if self.configuration.wait_for_pods_ready is not None:
            reason = "Started" if ready else "WaitForStart"
            conditions.append(c.new_condition(c.PODS_READY, "True" if ready else "False", reason, "", at))
        return replace(
            status,
            conditions=c.with_conditions(status.conditions, *conditions),
            admission=Admission(cluster_queue=queue, pod_set_assignments=tuple(assignments)),
            admission_checks=checks,
        )

    def _given_places(self, flavors: Json, domains: Json | None) -> TopologyAssignment | None:
        if domains is None:
            return None
        model = self.state.ledger.topology
        (flavor,) = {flavor for flavor in flavors.values() if model.is_topology_flavor(flavor)}
        levels = model.levels(flavor)
        assert levels is not None
        levels = levels[-1:] if levels[-1] == HOSTNAME else levels
        return topology_assignment(
            levels, [(tuple(str(domain).split(",")), count) for domain, count in domains.items()]
        )

    def read_shape(self, given: Json) -> Shape:
        return self.state.ledger.shapes.shape_of(self.read_workload(given))

    def charges_pods(self, cluster_queue: str) -> bool:
        queue = self.state.ledger.cluster_queues.get(cluster_queue)
        return queue is not None and PODS in queue.groups

    def cluster_queue_of(self, given: Json) -> str:
        queue = given.get("queue", "")
        local_queue = self.given.get("localQueues", {}).get(queue, {"clusterQueue": queue})
        name: str = local_queue["clusterQueue"]
        return name

    def node(self, name: str) -> Node:
        return self.state.ledger.quota.queues.get(name) or self.state.ledger.quota.cohorts[name]

    # Writes.

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
