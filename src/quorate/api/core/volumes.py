"""Volumes of core/v1 and storage.k8s.io/v1: which nodes a claim ties a pod to, and how many a node takes."""

from typing import Final

import msgspec

from quorate.api.core import NodeSelector, ResourceRequirements, Resources
from quorate.api.meta import LabelSelector, ObjectMeta, Struct

# Annotations of a claim: the node a volume is made for, and that binding to a volume is complete; and of a
# volume: that nobody chose by hand which claim it is for.
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
    volume_handle: str = ""  # volumes with one handle are one attachment


class PersistentVolumeSpec(Struct):
    capacity: Resources = {}
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None


class VolumeStatus(Struct):
    phase: str = "Pending"


class PersistentVolume(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: VolumeStatus = VolumeStatus()


class PersistentVolumeClaimSpec(Struct):
    """``storage_class_name``: None stands for the default class, and "" for volumes that have none."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = "Filesystem"


class PersistentVolumeClaim(Struct):
    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: VolumeStatus = VolumeStatus()


class TopologySelectorLabelRequirement(Struct):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Struct):
    """Volumes of a class that waits for its first consumer are made where the pod is placed."""

    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"  # or WaitForFirstConsumer
    allowed_topologies: tuple[
        TopologySelectorTerm, ...
    ] = ()  # one of the terms must hold; none is everywhere


class VolumeNodeResources(Struct):
    count: int | None = None  # volumes on the node at once; None is no limit


class CSINodeDriver(Struct):
    name: str
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources = VolumeNodeResources()


class CSINodeSpec(Struct):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct):
    """The drivers of the node of the same name."""

    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()
