"""Volumes of core/v1 and storage.k8s.io/v1: node affinity and volume limits."""

from typing import Final

import msgspec

from quorate.api.core import NodeSelector, ResourceRequirements, Resources
from quorate.api.meta import LabelSelector, ObjectMeta, Struct
from quorate.api.quantity import Quantity

# Annotations of a claim: the node for which a volume is provisioned, and that binding has completed.
# Annotation of a volume: the volume controller, not a user, chose its claim.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class ClaimReference(Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSIVolumeSource(Struct):
    driver: str = ""
    volume_handle: str = ""  # volumes with the same handle count as one attachment


class PersistentVolumeSpec(Struct):
    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None
    volume_attributes_class_name: str = ""


class VolumeStatus(Struct):
    phase: str = "Pending"


class PersistentVolume(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumeStatus = VolumeStatus()


class PersistentVolumeClaimSpec(Struct):
    """A ``storage_class_name`` of None selects the default class, "" selects no class."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolumeClaim(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumeStatus = VolumeStatus()

    @property
    def requested(self) -> Quantity:
        """Return the requested storage, bytes; 0 without a request."""
        resources = self.spec.resources
        return resources.requests.get("storage", Quantity(0))


class TopologySelectorLabelRequirement(Struct):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Struct):
    """A storage class; WaitForFirstConsumer provisions a volume where its pod is placed."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"  # or WaitForFirstConsumer
    allowed_topologies: tuple[
        TopologySelectorTerm, ...
    ] = ()  # at least one term must match; empty matches every node


class VolumeNodeResources(Struct):
    count: int | None = None  # maximum number of volumes on the node; None: no limit


class CSINodeDriver(Struct):
    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources = VolumeNodeResources()


class CSINodeSpec(Struct):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct):
    """The CSI drivers of the node with the same name."""

    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()
