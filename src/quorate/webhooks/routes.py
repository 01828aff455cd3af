"""The table of webhooks by kind, with their paths and operations.

Names and paths are Kueue's, so that Kueue's own webhook configurations work as well as ours.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from quorate.api import volcano
from quorate.api.kueue import GROUP, VERSION
from quorate.api.volcano import job as volcano_job
from quorate.kube.resources import Json, Resource
from quorate.webhooks.admission_review import Operation

Verb = Literal["mutate", "validate"]
CONVERT_PATH: Final = "/convert"

_CREATE: Final[tuple[Operation, ...]] = ("CREATE",)
_WRITE: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """How the API server reaches the webhook server: by a Service, or by a URL."""

    namespace: str = ""
    service: str = ""
    url: str = ""  # without a path
    ca_bundle: str = ""  # PEM in base64; empty: it is injected later

    def client_config(self, path: str) -> Json:
        trust = {"caBundle": self.ca_bundle} if self.ca_bundle else {}
        if self.url:
            return {"url": f"{self.url}{path}", **trust}
        return {"service": {"namespace": self.namespace, "name": self.service, "path": path}, **trust}


@dataclass(frozen=True, slots=True)
class Route:
    """The webhooks of one kind."""

    group: str
    version: str
    kind: str
    plural: str
    mutates: tuple[Operation, ...] = _CREATE
    validates: tuple[Operation, ...] = _WRITE
    subresources: tuple[str, ...] = ()  # validated as well
    stem: str = ""  # of the names of the webhooks; empty: the kind
    validated_if: str = ""  # CEL: which requests are validated; empty: all

    def path(self, verb: Verb) -> str:
        return f"/{verb}-{self.group.replace('.', '-')}-{self.version}-{self.kind.lower()}"

    def name(self, verb: Verb) -> str:
        """The name of the webhook; the API server prefixes every refusal with it."""
        return f"{verb[0]}{self.name_stem}.kb.io"

    @property
    def name_stem(self) -> str:
        return self.stem or self.kind.lower()

    @property
    def is_job(self) -> bool:
        """Whether the kind runs pods, as opposed to the kinds that configure queueing."""
        return self.group != GROUP


def _queueing(kind: str, mutates: tuple[Operation, ...] = _CREATE, *subresources: str) -> Route:
    return Route(GROUP, VERSION, kind, f"{kind.lower()}s", mutates, subresources=subresources)


def _job(group: str, version: str, kind: str, mutates: tuple[Operation, ...] = _CREATE) -> Route:
    return Route(group, version, kind, f"{kind.lower()}s", mutates)


_KUBEFLOW: Final = ("TFJob", "PyTorchJob", "PaddleJob", "XGBoostJob", "JAXJob")
ROUTES: Final = (
    _queueing("Workload", _CREATE, "status"),
    _queueing("ClusterQueue"),
    _queueing("ResourceFlavor"),
    _queueing("Cohort", mutates=()),
    _job("batch", "v1", "Job"),
    _job("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    *(_job("kubeflow.org", "v1", kind) for kind in _KUBEFLOW),
    _job("kubeflow.org", "v2beta1", "MPIJob"),
    _job("trainer.kubeflow.org", "v1alpha1", "TrainJob"),
    _job("ray.io", "v1", "RayJob"),
    _job("ray.io", "v1", "RayCluster"),
    _job("ray.io", "v1", "RayService"),
    _job("workload.codeflare.dev", "v1beta2", "AppWrapper"),
    _job("sparkoperator.k8s.io", "v1beta2", "SparkApplication"),
    _job("", "v1", "Pod"),
    _job("apps", "v1", "Deployment", _WRITE),
    _job("apps", "v1", "StatefulSet", _WRITE),
    _job("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", _WRITE),
)
# PodGroup has no status subresource: writes of the status are not sent.
_NEW_LABELS_OR_SPEC: Final = (
    "oldObject == null || has(object.metadata.labels) != has(oldObject.metadata.labels) || "
    "(has(object.metadata.labels) && object.metadata.labels != oldObject.metadata.labels) || "
    "has(object.spec) != has(oldObject.spec) || (has(object.spec) && object.spec != oldObject.spec)"
)
# Kinds that Kueue does not know; another kind named Job has webhooks of that name.
_OWN_ROUTES: Final = (
    Route(volcano_job.GROUP, volcano_job.VERSION, "Job", "jobs", stem="volcanojob"),
    Route(volcano.GROUP, volcano.VERSION, "PodGroup", "podgroups", validated_if=_NEW_LABELS_OR_SPEC),
)
_BY_KIND: Final = {(route.group, route.version, route.kind): route for route in (*ROUTES, *_OWN_ROUTES)}


def route_of(resource: Resource[Any]) -> Route:
    """Return the route of a kind; a kind that Kueue does not know gets a new one."""
    route = _BY_KIND.get((resource.group, resource.version, resource.kind))
    return route or Route(resource.group, resource.version, resource.kind, resource.plural)
