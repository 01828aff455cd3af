"""The fields of objects of an installation that ``preflight`` reads."""

from datetime import datetime

from quorate.api.meta import Condition, Key, LabelSelector, ObjectMeta, Struct
from quorate.kube.resources import Resource


class ServiceReference(Struct):
    namespace: str = ""
    name: str = ""


class ClientConfig(Struct):
    service: ServiceReference | None = None
    url: str = ""
    ca_bundle: str = ""


class RuleWithOperations(Struct):
    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class Webhook(Struct):
    name: str
    client_config: ClientConfig = ClientConfig()
    failure_policy: str = "Fail"
    namespace_selector: LabelSelector = LabelSelector()
    rules: tuple[RuleWithOperations, ...] = ()


class WebhookConfiguration(Struct):
    metadata: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()


class ConversionWebhook(Struct):
    client_config: ClientConfig = ClientConfig()


class Conversion(Struct):
    strategy: str = "None"
    webhook: ConversionWebhook | None = None


class DefinitionVersion(Struct):
    name: str
    served: bool = False
    storage: bool = False


class DefinitionNames(Struct):
    plural: str = ""
    kind: str = ""


class DefinitionSpec(Struct):
    group: str = ""
    names: DefinitionNames = DefinitionNames()
    scope: str = ""
    versions: tuple[DefinitionVersion, ...] = ()
    conversion: Conversion = Conversion()


class DefinitionStatus(Struct):
    conditions: tuple[Condition, ...] = ()
    stored_versions: tuple[str, ...] = ()


class Definition(Struct):
    metadata: ObjectMeta
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


class EndpointConditions(Struct):
    ready: bool = True


class Endpoint(Struct):
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(Struct):
    metadata: ObjectMeta
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def service(self) -> Key:
        return Key(self.metadata.namespace, self.metadata.labels.get("kubernetes.io/service-name", ""))

    @property
    def ready(self) -> int:
        return sum(endpoint.conditions.ready for endpoint in self.endpoints)


class DeployedContainer(Struct):
    image: str = ""


class DeployedPodSpec(Struct):
    containers: tuple[DeployedContainer, ...] = ()
    service_account_name: str = ""


class DeployedTemplate(Struct):
    spec: DeployedPodSpec = DeployedPodSpec()


class DeploymentSpec(Struct):
    replicas: int = 1
    template: DeployedTemplate = DeployedTemplate()


class DeploymentStatus(Struct):
    ready_replicas: int = 0


class Deployment(Struct):
    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def images(self) -> tuple[str, ...]:
        """Return the images of the containers, in their order."""
        template = self.spec.template
        return tuple(container.image for container in template.spec.containers)


class HeldLeaseSpec(Struct):
    holder_identity: str = ""
    renew_time: datetime | None = None
    lease_duration_seconds: int = 15


class HeldLease(Struct):
    metadata: ObjectMeta
    spec: HeldLeaseSpec = HeldLeaseSpec()


_ADMISSION = "admissionregistration.k8s.io"
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, Definition
)
MUTATING = Resource(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False,
    WebhookConfiguration,
)  # fmt: skip
VALIDATING = Resource(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False,
    WebhookConfiguration,
)  # fmt: skip
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, Deployment)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, HeldLease)
