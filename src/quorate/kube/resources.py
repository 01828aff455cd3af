"""API resources: their paths, and the types into which their objects are decoded."""

import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import quote

from msgspec.structs import replace

from quorate.api import batch, codec, core, events, kueue, native_groups, quorate, volcano
from quorate.api.codec import Json as Json
from quorate.api.core import device_claims, pod, scheduling, volumes
from quorate.api.events import ObjectReference
from quorate.api.kueue import multikueue, provisioning, topology
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.api.volcano import job as volcano_job
from quorate.api.volcano import topology as volcano_topology

Body = Struct | Mapping[str, Any]


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata | Json)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind as the API serves it; ``type`` is the type of decoded objects."""

    group: str  # "" is the core group
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: builtins.type[T]
    is_busy: bool = False  # most changes concern no decision: see ``rest.batched_reads``

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of one object, or of the collection if ``name`` is empty.

        Without a namespace the collection of a namespaced kind spans all namespaces, for reads only.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def encode(self, body: Body) -> bytes:
        """Return ``body`` as JSON with apiVersion and kind, which typed objects do not have."""
        if isinstance(body, Struct):
            fields = codec.encode(body)
            head = codec.encode({"apiVersion": self.api_version, "kind": self.kind})
            return head if fields == b"{}" else head[:-1] + b"," + fields[1:]
        return codec.encode({"apiVersion": self.api_version, "kind": self.kind, **body})


def metadata_of(obj: HasMetadata | Json) -> ObjectMeta:
    if isinstance(obj, dict):
        return codec.convert(ObjectMeta, obj["metadata"])
    return obj.metadata


def reference_to(resource: Resource[Any], metadata: ObjectMeta) -> ObjectReference:
    """Return a reference to the object with ``metadata`` for an event or a status."""
    return reference(resource, metadata.key, metadata.uid)


def versioned_reference_to(resource: Resource[Any], metadata: ObjectMeta) -> ObjectReference:
    """Return a reference to the object with ``metadata`` in its present version, for an event."""
    return replace(reference_to(resource, metadata), resource_version=metadata.resource_version)


def reference(resource: Resource[Any], key: Key, uid: Uid) -> ObjectReference:
    """Return a reference to an object of which only key and uid are known."""
    return ObjectReference(
        api_version=resource.api_version, kind=resource.kind, name=key.name, namespace=key.namespace, uid=uid
    )


def untyped(group: str, version: str, plural: str, kind: str, namespaced: bool) -> Resource[Json]:
    """Return a kind with objects that stay JSON, such as manifests from files."""
    return Resource(group, version, plural, kind, namespaced, cast(type[Json], dict[str, Any]))


PODS = Resource("", "v1", "pods", "Pod", True, core.Pod)
NODES = Resource("", "v1", "nodes", "Node", False, core.Node)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, core.Namespace)
SERVICES = untyped("", "v1", "services", "Service", True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, core.ConfigMap)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, core.ServiceAccount)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", True, provisioning.PodTemplate)
DEVICE_CLASSES = Resource(
    device_claims.GROUP, device_claims.VERSION, "deviceclasses", "DeviceClass", False,
    device_claims.DeviceClass,
)  # fmt: skip
RESOURCE_CLAIMS = Resource(
    device_claims.GROUP,
    device_claims.VERSION,
    "resourceclaims",
    "ResourceClaim",
    True,
    device_claims.ResourceClaim,
)
RESOURCE_SLICES = Resource(
    device_claims.GROUP,
    device_claims.VERSION,
    "resourceslices",
    "ResourceSlice",
    False,
    device_claims.ResourceSlice,
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    device_claims.GROUP, device_claims.VERSION, "resourceclaimtemplates", "ResourceClaimTemplate", True,
    device_claims.ResourceClaimTemplate,
)  # fmt: skip
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", True, core.LimitRange)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, core.ResourceQuota)
JOBS = Resource("batch", "v1", "jobs", "Job", True, batch.Job)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", True, events.Event)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, events.Lease)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, core.PriorityClass
)
NATIVE_POD_GROUPS = Resource(
    native_groups.GROUP, native_groups.VERSION, "podgroups", "PodGroup", True, native_groups.PodGroup
)
NATIVE_WORKLOADS = Resource(
    native_groups.GROUP, native_groups.VERSION, "workloads", "Workload", True, native_groups.Workload
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, core.RuntimeClass)

# With the fields that a scheduler reads.
PLACEABLE_PODS = Resource("", "v1", "pods", "Pod", True, pod.Pod, is_busy=True)
PLACEABLE_NODES = Resource("", "v1", "nodes", "Node", False, scheduling.Node, is_busy=True)
PERSISTENT_VOLUMES = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, volumes.PersistentVolume
)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, volumes.PersistentVolumeClaim
)
STORAGE_CLASSES = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, volumes.StorageClass
)
POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, scheduling.PodDisruptionBudget
)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, volumes.CSINode)


def _kueue(plural: str, namespaced: bool, type_: type[T]) -> Resource[T]:
    return Resource(kueue.GROUP, kueue.VERSION, plural, type_.__name__, namespaced, type_)


WORKLOADS = _kueue("workloads", True, kueue.Workload)
LOCAL_QUEUES = _kueue("localqueues", True, kueue.LocalQueue)
CLUSTER_QUEUES = _kueue("clusterqueues", False, kueue.ClusterQueue)
COHORTS = _kueue("cohorts", False, kueue.Cohort)
TOPOLOGIES = _kueue("topologies", False, topology.Topology)
RESERVATIONS = Resource(
    quorate.GROUP, quorate.VERSION, "reservations", "Reservation", False, quorate.Reservation
)
RESOURCE_FLAVORS = _kueue("resourceflavors", False, kueue.ResourceFlavor)
PROVISIONING_REQUESTS = Resource(
    provisioning.GROUP, "v1", "provisioningrequests", "ProvisioningRequest", True,
    provisioning.ProvisioningRequest,
)  # fmt: skip
PROVISIONING_REQUEST_CONFIGS = _kueue(
    "provisioningrequestconfigs", False, provisioning.ProvisioningRequestConfig
)
ADMISSION_CHECKS = _kueue("admissionchecks", False, kueue.AdmissionCheck)
MULTIKUEUE_CONFIGS = _kueue("multikueueconfigs", False, multikueue.MultiKueueConfig)
MULTIKUEUE_CLUSTERS = _kueue("multikueueclusters", False, multikueue.MultiKueueCluster)
KUBECONFIG_SECRETS = Resource("", "v1", "secrets", "Secret", True, multikueue.Secret)
CLUSTER_PROFILES = Resource(
    multikueue.PROFILE_GROUP, "v1alpha1", "clusterprofiles", "ClusterProfile", True, multikueue.ClusterProfile
)
WORKLOAD_PRIORITY_CLASSES = _kueue("workloadpriorityclasses", False, kueue.WorkloadPriorityClass)
POD_GROUPS = Resource(volcano.GROUP, volcano.VERSION, "podgroups", "PodGroup", True, volcano.PodGroup)
QUEUES = Resource(volcano.GROUP, volcano.VERSION, "queues", "Queue", False, volcano.Queue)
VOLCANO_JOBS = Resource(volcano_job.GROUP, volcano_job.VERSION, "jobs", "Job", True, volcano_job.Job)
COMMANDS = Resource(
    volcano_job.BUS_GROUP, volcano_job.VERSION, "commands", "Command", True, volcano_job.Command
)
HYPER_NODES = Resource(
    volcano_topology.GROUP, volcano_topology.VERSION, "hypernodes", "HyperNode", False,
    volcano_topology.HyperNode,
)  # fmt: skip
