"""Manifests of the controllers: a Deployment of two replicas with leader election, and its services."""

from collections.abc import Iterator
from typing import Final

from quorate.api import native_groups
from quorate.api.codec import Json
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.meta import Key
from quorate.api.native_groups import MEMBER_OF, POLICY
from quorate.install import manifest_builders
from quorate.install.controller_rules import PolicyRule
from quorate.install.manifest_builders import Component
from quorate.install.roles import ACCOUNT, IN_FORCE, account_roles, manifest, metadata

CONFIGURATION: Final = "quorate-configuration"
KUEUE_CONFIGURATION: Final = "kueue-manager-config"  # of an installation of Kueue
CONFIGURATION_FILE: Final = "controller_manager_config.yaml"
IN_FORCE_KEY: Final = Key("kube-public", IN_FORCE)  # the ConfigMap with the Configuration in force
NEEDS_RESTART: Final = "needs-restart"  # in that ConfigMap: fields that take effect at a restart
# Kueue's default frameworks, for which webhooks are installed, and the kinds of Volcano.
FRAMEWORKS: Final = (
    "batch/job",
    "batch.volcano.sh/job",
    "kubeflow.org/mpijob",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/jaxjob",
    "workload.codeflare.dev/appwrapper",
    "trainer.kubeflow.org/trainjob",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "scheduling.volcano.sh/podgroup",
)
WEBHOOK_SERVICE: Final = CertificateManagement().service
VISIBILITY_SERVICE: Final = "kueue-visibility-server"
WEBHOOK_PORT: Final = 9443
METRICS_PORT: Final = 8443
HEALTH_PORT: Final = 8081
VISIBILITY_PORT: Final = 8082
CONTROLLERS: Final = Component(
    ACCOUNT,
    "controllers",
    {"webhook": WEBHOOK_PORT, "metrics": METRICS_PORT, "visibility": VISIBILITY_PORT, "health": HEALTH_PORT},
)


def configuration_text(namespace: str) -> str:
    """Return the shipped Configuration: the frameworks, leader election on, defaults otherwise."""
    frameworks = "".join(f"  - {name}\n" for name in FRAMEWORKS)
    return f"""\
namespace: {namespace}
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :{HEALTH_PORT}
metrics:
  bindAddress: :{METRICS_PORT}
visibilityServer:
  bindAddress: 0.0.0.0
  bindPort: {VISIBILITY_PORT}
webhook:
  port: {WEBHOOK_PORT}
leaderElection:
  leaderElect: true
integrations:
  frameworks:
{frameworks}"""


def configuration(namespace: str) -> Json:
    return manifest_builders.configuration(
        CONFIGURATION, namespace, CONFIGURATION_FILE, configuration_text(namespace)
    )


def workload(namespace: str, image: str) -> Iterator[Json]:
    yield CONTROLLERS.service_account(namespace)
    args = ["controllers", "--config", f"/etc/quorate/{CONFIGURATION_FILE}", "--log-format", "json"]
    resources = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    container = CONTROLLERS.container(image, args, resources)
    yield CONTROLLERS.elected_deployment(namespace, container, CONFIGURATION)
    yield CONTROLLERS.disruption_budget(namespace)


def services(namespace: str) -> Iterator[Json]:
    """Yield the services; those called by the API server have Kueue's names, so existing references work."""
    yield CONTROLLERS.service(WEBHOOK_SERVICE, namespace, "webhook", 443)
    yield CONTROLLERS.service(VISIBILITY_SERVICE, namespace, "visibility", 443)
    yield CONTROLLERS.service("quorate-metrics", namespace, "metrics", METRICS_PORT)


RULES: Final = (
    PolicyRule("creating native pod groups", native_groups.GROUP, ("podgroups",), ("get", "create", "patch")),
    PolicyRule(
        "looking for the policy that groups pods",
        "admissionregistration.k8s.io",
        ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
        ("get",),
        names=(POLICY,),
    ),
)
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_GROUP: Final = f"object.metadata.labels['{MEMBER_OF}']"


def native_gangs(namespace: str) -> Iterator[Json]:
    """Yield the admission policy, its binding, and the role of the controllers with its binding.

    The policy is part of the API server: it needs no webhook that can be down.  It replaces the group with
    which the Job controller of Kubernetes 1.37 makes the pods of a job without demands.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    member = {"matchExpressions": [{"key": MEMBER_OF, "operator": "Exists"}]}
    group = f"{{'podGroupName': {_GROUP}}}"
    expression = f"[JSONPatch{{op: 'add', path: '/spec/schedulingGroup', value: {group}}}]"
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule], "objectSelector": member},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    yield manifest(_ADMISSION, "MutatingAdmissionPolicy", metadata(POLICY), spec=policy)
    yield manifest(
        _ADMISSION, "MutatingAdmissionPolicyBinding", metadata(POLICY), spec={"policyName": POLICY}
    )
    yield from account_roles(POLICY, ACCOUNT, RULES, namespace)
