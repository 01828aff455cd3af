"""ProvisioningRequest (``autoscaling.x-k8s.io/v1``) and Kueue's ProvisioningRequestConfig."""

from typing import Final, Literal

from quorate.api.meta import Condition, Int32, ObjectMeta, Struct

GROUP = "autoscaling.x-k8s.io"
CONTROLLER: Final = "kueue.x-k8s.io/provisioning-request"  # of admission checks

MergePolicy = Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]


class RetryStrategy(Struct):
    """Retry ``base * 2 ** (n - 1)`` seconds after failure ``n``."""

    backoff_limit_count: Int32 = 3
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 1800


class NodeSelectorUpdate(Struct):
    key: str
    value_from_provisioning_class_detail: str


class ConfiguredPodSetUpdates(Struct):
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class ProvisioningRequestConfigSpec(Struct):
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: tuple[str, ...] = ()  # empty: every pod set needs a request
    retry_strategy: RetryStrategy = RetryStrategy()
    pod_set_updates: ConfiguredPodSetUpdates = ConfiguredPodSetUpdates()
    pod_set_merge_policy: MergePolicy | None = None


class ProvisioningRequestConfig(Struct):
    metadata: ObjectMeta
    spec: ProvisioningRequestConfigSpec = ProvisioningRequestConfigSpec()


class TemplateReference(Struct):
    name: str


class RequestedPodSet(Struct):
    pod_template_ref: TemplateReference
    count: Int32


class ProvisioningRequestSpec(Struct):
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    pod_sets: tuple[RequestedPodSet, ...] = ()


class ProvisioningRequestStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: dict[str, str] = {}


class ProvisioningRequest(Struct):
    metadata: ObjectMeta
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


class PodTemplate(Struct):
    """A PodTemplate object, of which only the metadata is read."""

    metadata: ObjectMeta
