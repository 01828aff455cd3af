"""Built-in kinds of networks, storage, devices, autoscaling, certificates and extensions of the API."""

from typing import Any

from quorate.local.objects.tables.infrastructure import AUTOSCALER
from quorate.local.objects.tables.layout import Cells, TableLayout
from quorate.local.server.registry.kinds import STATUS, Kind, StorageConversion, Subresource
from quorate.local.server.storage import autoscaler_versions

ADMISSION = "admissionregistration.k8s.io"
FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
NETWORKING = "networking.k8s.io"
STORAGE_GROUP = "storage.k8s.io"

Json = dict[str, Any]

CLUSTER = (
    Kind(
        "",
        "v1",
        "Endpoints",
        "endpoints",
        True,
        short_names=("ep",),
        list_kind="EndpointsList",
        allow_create_on_update=True,
    ),
    Kind(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        True,
        tracks_generation=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        tracks_generation=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        False,
        categories=("api-extensions",),
        tracks_generation=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
        categories=("api-extensions",),
        subresources=(STATUS,),
        tracks_generation=True,
        require_resource_version=True,
    ),
    Kind(
        ADMISSION,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        False,
        categories=("api-extensions",),
        tracks_generation=True,
        require_resource_version=True,
    ),
    Kind(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        False,
        categories=("api-extensions",),
        subresources=(STATUS,),
    ),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        short_names=("pdb",),
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    Kind(
        NETWORKING,
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        True,
        short_names=("netpol",),
        tracks_generation=True,
    ),
    Kind(
        NETWORKING,
        "v1",
        "Ingress",
        "ingresses",
        True,
        short_names=("ing",),
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    Kind(NETWORKING, "v1", "IngressClass", "ingressclasses", False, tracks_generation=True),
    Kind(
        FLOW_CONTROL,
        "v1",
        "FlowSchema",
        "flowschemas",
        False,
        subresources=(STATUS,),
        tracks_generation=True,
    ),
    Kind(
        FLOW_CONTROL,
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        False,
        subresources=(STATUS,),
        tracks_generation=True,
    ),
)

STORAGE = (
    Kind(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        False,
        short_names=("pv",),
        subresources=(STATUS,),
        return_deleted_object=True,
    ),
    Kind(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        short_names=("pvc",),
        subresources=(STATUS,),
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "StorageClass",
        "storageclasses",
        False,
        short_names=("sc",),
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "CSIDriver",
        "csidrivers",
        False,
        require_resource_version=True,
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "CSINode",
        "csinodes",
        False,
        require_resource_version=True,
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "CSIStorageCapacity",
        "csistoragecapacities",
        True,
        require_resource_version=True,
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        False,
        subresources=(STATUS,),
        require_resource_version=True,
        return_deleted_object=True,
    ),
    Kind(
        STORAGE_GROUP,
        "v1",
        "VolumeAttributesClass",
        "volumeattributesclasses",
        False,
        short_names=("vac",),
        return_deleted_object=True,
    ),
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


def device_kind(kind: str, plural: str, namespaced: bool, **more: object) -> Kind:
    return Kind(
        "resource.k8s.io",
        "v1",
        kind,
        plural,
        namespaced,
        return_deleted_object=True,
        **more,  # type: ignore[arg-type]
    )


DEVICES = (
    device_kind("DeviceClass", "deviceclasses", False, tracks_generation=True),
    device_kind("ResourceClaim", "resourceclaims", True, subresources=(STATUS,)),
    device_kind("ResourceClaimTemplate", "resourceclaimtemplates", True),
    device_kind(
        "ResourceSlice",
        "resourceslices",
        False,
        selectable_fields={"spec.nodeName": "", "spec.driver": ""},
        tracks_generation=True,
    ),
)

CERTIFICATES = (
    Kind(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        False,
        short_names=("csr",),
        subresources=(Subresource("approval", STATUS.verbs), STATUS),
        selectable_fields={"spec.signerName": ""},
    ),
)

METRICS = (  # computed for each request, so their objects are never decoded
    Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, verbs=("get", "list"), singular="node"),
    Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True, verbs=("get", "list"), singular="pod"),
)

KINDS = CLUSTER + STORAGE + AUTOSCALING + DEVICES + CERTIFICATES
