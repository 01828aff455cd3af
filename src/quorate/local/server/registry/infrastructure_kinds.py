"""Built-in kinds of networks, storage, devices, autoscaling, certificates and extensions of the API."""

from typing import Any

from quorate.local.objects.tables.infrastructure import AUTOSCALER
from quorate.local.objects.tables.layout import Cells, TableLayout
from quorate.local.server.registry.kinds import STATUS, Kind, StorageConversion, Subresource
from quorate.local.server.storage import autoscaler_versions

ADMISSION = "admissionregistration.k8s.io"
DEVICES_GROUP = "resource.k8s.io"
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
NETWORKING = "networking.k8s.io"
STORAGE_GROUP = "storage.k8s.io"

Json = dict[str, Any]


def v1_kind(
    group: str, kind: str, plural: str, *short_names: str, namespaced: bool = False, **more: object
) -> Kind:
    return Kind(group, "v1", kind, plural, namespaced, short_names=short_names, **more)  # type: ignore[arg-type]


def returned_kind(group: str, kind: str, plural: str, *short_names: str, **more: object) -> Kind:
    """Return a kind of which DELETE returns the deleted object."""
    return v1_kind(group, kind, plural, *short_names, return_deleted_object=True, **more)  # type: ignore[arg-type]


CLUSTER = (
    v1_kind(
        "",
        "Endpoints",
        "endpoints",
        "ep",
        namespaced=True,
        list_kind="EndpointsList",
        allow_create_on_update=True,
    ),
    v1_kind("discovery.k8s.io", "EndpointSlice", "endpointslices", namespaced=True, tracks_generation=True),
    v1_kind(
        ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        categories=("api-extensions",),
        tracks_generation=True,
    ),
    v1_kind(
        ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        categories=("api-extensions",),
        tracks_generation=True,
    ),
    v1_kind(
        ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        categories=("api-extensions",),
        subresources=(STATUS,),
        tracks_generation=True,
        require_resource_version=True,
    ),
    v1_kind(
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        categories=("api-extensions",),
        tracks_generation=True,
        require_resource_version=True,
    ),
    v1_kind(
        "apiregistration.k8s.io",
        "APIService",
        "apiservices",
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    v1_kind(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        namespaced=True,
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    v1_kind(
        NETWORKING, "NetworkPolicy", "networkpolicies", "netpol", namespaced=True, tracks_generation=True
    ),
    v1_kind(
        NETWORKING,
        "Ingress",
        "ingresses",
        "ing",
        namespaced=True,
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    v1_kind(NETWORKING, "IngressClass", "ingressclasses", tracks_generation=True),
    v1_kind(FLOW_CONTROL, "FlowSchema", "flowschemas", subresources=(STATUS,), tracks_generation=True),
    v1_kind(
        FLOW_CONTROL,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        subresources=(STATUS,),
        tracks_generation=True,
    ),
)

STORAGE = (
    returned_kind("", "PersistentVolume", "persistentvolumes", "pv", subresources=(STATUS,)),
    returned_kind(
        "", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", namespaced=True, subresources=(STATUS,)
    ),
    returned_kind(STORAGE_GROUP, "StorageClass", "storageclasses", "sc"),
    returned_kind(STORAGE_GROUP, "CSIDriver", "csidrivers", require_resource_version=True),
    returned_kind(STORAGE_GROUP, "CSINode", "csinodes", require_resource_version=True),
    returned_kind(
        STORAGE_GROUP,
        "CSIStorageCapacity",
        "csistoragecapacities",
        namespaced=True,
        require_resource_version=True,
    ),
    returned_kind(
        STORAGE_GROUP,
        "VolumeAttachment",
        "volumeattachments",
        subresources=(STATUS,),
        require_resource_version=True,
    ),
    returned_kind(STORAGE_GROUP, "VolumeAttributesClass", "volumeattributesclasses", "vac"),
)


def _cells_of_v1(obj: Json, now: float) -> list[Any]:
    return AUTOSCALER.cells(autoscaler_versions.to_v2(obj), now)


def autoscaler(version: str, convert: StorageConversion | None, cells: Cells) -> Kind:
    return Kind(
        "autoscaling",
        version,
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        True,
        short_names=("hpa",),
        categories=("all",),
        subresources=(STATUS,),
        convert=convert,
        table_layout=TableLayout(AUTOSCALER.columns, cells),
    )


AUTOSCALING = (
    autoscaler("v2", None, AUTOSCALER.cells),
    autoscaler("v1", autoscaler_versions.convert_v1, _cells_of_v1),
)


DEVICES = (
    returned_kind(DEVICES_GROUP, "DeviceClass", "deviceclasses", tracks_generation=True),
    returned_kind(DEVICES_GROUP, "ResourceClaim", "resourceclaims", namespaced=True, subresources=(STATUS,)),
    returned_kind(DEVICES_GROUP, "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True),
    returned_kind(
        DEVICES_GROUP,
        "ResourceSlice",
        "resourceslices",
        selectable_fields={"spec.nodeName": "", "spec.driver": ""},
        tracks_generation=True,
    ),
)

CERTIFICATES = (
    v1_kind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
        subresources=(Subresource("approval", STATUS.verbs), STATUS),
        selectable_fields={"spec.signerName": ""},
    ),
)

METRICS = (  # computed for each request, so their objects are never decoded
    Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, verbs=("get", "list"), singular="node"),
    Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True, verbs=("get", "list"), singular="pod"),
)

KINDS = CLUSTER + STORAGE + AUTOSCALING + DEVICES + CERTIFICATES
