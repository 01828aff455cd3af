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


def _typed(
    group: str, version: str, plural: str, namespaced: bool, type_: type[T], *, is_busy: bool = False
) -> Resource[T]:
    """Return a kind that is called as its type."""
    return Resource(group, version, plural, type_.__name__, namespaced, type_, is_busy)


def _devices(plural: str, namespaced: bool, type_: type[T]) -> Resource[T]:
    return _typed(device_claims.GROUP, device_claims.VERSION, plural, namespaced, type_)


def _kueue(plural: str, namespaced: bool, type_: type[T]) -> Resource[T]:
    return _typed(kueue.GROUP, kueue.VERSION, plural, namespaced, type_)


PODS = _typed("", "v1", "pods", True, core.Pod)
NODES = _typed("", "v1", "nodes", False, core.Node)
NAMESPACES = _typed("", "v1", "namespaces", False, core.Namespace)
SERVICES = untyped("", "v1", "services", "Service", True)
CONFIG_MAPS = _typed("", "v1", "configmaps", True, core.ConfigMap)
SERVICE_ACCOUNTS = _typed("", "v1", "serviceaccounts", True, core.ServiceAccount)
POD_TEMPLATES = _typed("", "v1", "podtemplates", True, provisioning.PodTemplate)
DEVICE_CLASSES = _devices("deviceclasses", False, device_claims.DeviceClass)
RESOURCE_CLAIMS = _devices("resourceclaims", True, device_claims.ResourceClaim)
RESOURCE_SLICES = _devices("resourceslices", False, device_claims.ResourceSlice)
RESOURCE_CLAIM_TEMPLATES = _devices("resourceclaimtemplates", True, device_claims.ResourceClaimTemplate)
LIMIT_RANGES = _typed("", "v1", "limitranges", True, core.LimitRange)
RESOURCE_QUOTAS = _typed("", "v1", "resourcequotas", True, core.ResourceQuota)
JOBS = _typed("batch", "v1", "jobs", True, batch.Job)
EVENTS = _typed("events.k8s.io", "v1", "events", True, events.Event)
LEASES = _typed("coordination.k8s.io", "v1", "leases", True, events.Lease)
PRIORITY_CLASSES = _typed("scheduling.k8s.io", "v1", "priorityclasses", False, core.PriorityClass)
NATIVE_POD_GROUPS = _typed(
    native_groups.GROUP, native_groups.VERSION, "podgroups", True, native_groups.PodGroup
)
NATIVE_WORKLOADS = _typed(
    native_groups.GROUP, native_groups.VERSION, "workloads", True, native_groups.Workload
)
RUNTIME_CLASSES = _typed("node.k8s.io", "v1", "runtimeclasses", False, core.RuntimeClass)

# With the fields that a scheduler reads.
PLACEABLE_PODS = _typed("", "v1", "pods", True, pod.Pod, is_busy=True)
PLACEABLE_NODES = _typed("", "v1", "nodes", False, scheduling.Node, is_busy=True)
PERSISTENT_VOLUMES = _typed("", "v1", "persistentvolumes", False, volumes.PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = _typed("", "v1", "persistentvolumeclaims", True, volumes.PersistentVolumeClaim)
STORAGE_CLASSES = _typed("storage.k8s.io", "v1", "storageclasses", False, volumes.StorageClass)
POD_DISRUPTION_BUDGETS = _typed("policy", "v1", "poddisruptionbudgets", True, scheduling.PodDisruptionBudget)
CSI_NODES = _typed("storage.k8s.io", "v1", "csinodes", False, volumes.CSINode)


WORKLOADS = _kueue("workloads", True, kueue.Workload)
LOCAL_QUEUES = _kueue("localqueues", True, kueue.LocalQueue)
CLUSTER_QUEUES = _kueue("clusterqueues", False, kueue.ClusterQueue)
COHORTS = _kueue("cohorts", False, kueue.Cohort)
TOPOLOGIES = _kueue("topologies", False, topology.Topology)
RESERVATIONS = _typed(quorate.GROUP, quorate.VERSION, "reservations", False, quorate.Reservation)
RESOURCE_FLAVORS = _kueue("resourceflavors", False, kueue.ResourceFlavor)
PROVISIONING_REQUESTS = _typed(
    provisioning.GROUP, "v1", "provisioningrequests", True, provisioning.ProvisioningRequest
)
PROVISIONING_REQUEST_CONFIGS = _kueue(
    "provisioningrequestconfigs", False, provisioning.ProvisioningRequestConfig
)
ADMISSION_CHECKS = _kueue("admissionchecks", False, kueue.AdmissionCheck)
MULTIKUEUE_CONFIGS = _kueue("multikueueconfigs", False, multikueue.MultiKueueConfig)
MULTIKUEUE_CLUSTERS = _kueue("multikueueclusters", False, multikueue.MultiKueueCluster)
KUBECONFIG_SECRETS = _typed("", "v1", "secrets", True, multikueue.Secret)
CLUSTER_PROFILES = _typed(
    multikueue.PROFILE_GROUP, "v1alpha1", "clusterprofiles", True, multikueue.ClusterProfile
)
WORKLOAD_PRIORITY_CLASSES = _kueue("workloadpriorityclasses", False, kueue.WorkloadPriorityClass)
POD_GROUPS = _typed(volcano.GROUP, volcano.VERSION, "podgroups", True, volcano.PodGroup)
QUEUES = _typed(volcano.GROUP, volcano.VERSION, "queues", False, volcano.Queue)
VOLCANO_JOBS = _typed(volcano_job.GROUP, volcano_job.VERSION, "jobs", True, volcano_job.Job)
COMMANDS = _typed(volcano_job.BUS_GROUP, volcano_job.VERSION, "commands", True, volcano_job.Command)
HYPER_NODES = _typed(
    volcano_topology.GROUP, volcano_topology.VERSION, "hypernodes", False, volcano_topology.HyperNode
)
