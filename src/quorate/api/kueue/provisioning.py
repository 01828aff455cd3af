"""Requests for capacity: ``autoscaling.x-k8s.io/v1`` of cluster autoscalers, and Kueue's settings for it."""

from typing import Literal

from quorate.api.meta import Condition, ObjectMeta, Struct

GROUP = "autoscaling.x-k8s.io"

MergePolicy = Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]


class RetryStrategy(Struct):
    """After failure ``n``, up to the limit, comes another attempt, in ``base * 2 ** (n - 1)`` seconds."""

    backoff_limit_count: int = 3
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 1800


class NodeSelectorUpdate(Struct):
    key: str
    value_from_provisioning_class_detail: str


class ConfiguredPodSetUpdates(Struct):
    node_selector: tuple[NodeSelectorUpdate, ...] = ()


class ProvisioningRequestConfigSpec(Struct):
    provisioning_class_name: str = ""
    parameters: dict[str, str] = {}
    managed_resources: tuple[str, ...] = ()  # none: every pod set needs a request
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
    count: int


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
    """A pod template as an object; nobody here reads more of it than whose it is."""

    metadata: ObjectMeta
