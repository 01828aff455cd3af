"""Checks of the cluster: its version, definitions, webhooks, clients, controllers and permissions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quorate.api.kueue import GROUP, VERSION
from quorate.api.meta import Key, ObjectMeta, Struct, epoch, is_true
from quorate.api.native_groups import GATES
from quorate.controllers.native_groups import Missing, NativeGangs
from quorate.install.preflight.findings import PreflightFinding, error, info, some, warning
from quorate.install.preflight.installation_objects import (
    ClientConfig,
    Definition,
    Deployment,
    HeldLease,
    WebhookConfiguration,
)
from quorate.install.server_version import ServerVersion
from quorate.kube.resources import Resource

_VALIDATION_RULES: Final = (1, 25)  # first version with validation rules (CEL) in definitions
_MATCH_CONDITIONS: Final = (1, 28)  # first version with matchConditions of webhooks
_SELECTABLE_FIELDS: Final = (1, 31)  # first version with field selectors for custom resources
_OPTIONAL: Final = ("multikueueclusters", "multikueueconfigs", "provisioningrequestconfigs", "topologies")
# Kinds of Volcano, which other controllers and agents serve.
_UNSERVED: Final = (
    "colocationconfigurations.config.volcano.sh", "cronjobs.batch.volcano.sh", "jobflows.flow.volcano.sh",
    "jobtemplates.flow.volcano.sh", "nodeshards.shard.volcano.sh", "numatopologies.nodeinfo.volcano.sh",
)  # fmt: skip
_FEATURE: Final = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)".*\} ([01])$', re.MULTILINE)
_INSTALL: Final = "quorate crds --output crds, then kubectl apply --server-side -f crds"


def version_findings(served: ServerVersion) -> Iterator[PreflightFinding]:
    """Yield what the version of the server allows; a version that is not known is no reason to refuse it."""
    numbers = served.numbers
    if numbers is None:
        yield warning(
            "server",
            f"its version {served.git_version!r} does not tell which Kubernetes it is, so it was not checked "
            "for validation rules in definitions (1.25), matchConditions of webhooks (1.28) and field "
            "selectors for workloads (1.31)",
            "continue if the server is Kubernetes 1.28 or newer",
        )
    elif numbers < _VALIDATION_RULES:
        yield error(
            "server",
            f"Kubernetes {served} does not support validation rules in definitions",
            "use 1.25 or newer",
        )
    elif numbers < _MATCH_CONDITIONS:
        yield warning(
            "server",
            f"Kubernetes {served} does not support matchConditions: webhooks are called for every job",
            "use 1.28 or newer, or install no webhooks",
        )
    elif numbers < _SELECTABLE_FIELDS:
        yield info(
            "server", f"Kubernetes {served} does not support field selectors for workloads; all else works"
        )
    else:
        yield info("server", f"Kubernetes {served}")


def native_group_findings(
    answer: NativeGangs, gates: Sequence[str] | None, *, wanted: bool
) -> Iterator[PreflightFinding]:
    """Yield whether jobs can start as gangs on the stock scheduler, and which gates the server has.

    ``gates``: the enabled feature gates of pod groups; None: unknown.  ``wanted``: the Configuration asks for
    gangs.
    """
    if not isinstance(answer, Missing):
        text = (
            f"the server has pod groups of {answer.api_version}, and the policy for their pods is installed"
        )
        yield info("native gangs", text)
    elif wanted:
        yield error("native gangs", f"gangs: native, but {answer.value}", "or write gangs: none")
    elif answer is Missing.POLICY:
        yield info("native gangs", f"the server has pod groups; {answer.value}")
    if gates is not None and (gates or wanted):
        yield info(
            "native gangs", f"feature gates of the API server that are on: {', '.join(gates) or 'none'}"
        )


def enabled_gates(metrics: str) -> tuple[str, ...] | None:
    """Return the gates of native pod groups that are on, by the metrics of an API server.

    Return None if the metrics name no feature gate.
    """
    on = dict(_FEATURE.findall(metrics))
    return tuple(gate for gate in GATES if on.get(gate) == "1") if on else None


def definition_findings(
    definitions: Iterable[Definition], wanted: Iterable[str]
) -> Iterator[PreflightFinding]:
    """Yield which queueing definitions are installed, in which versions and by which product."""
    by_plural = {
        definition.spec.names.plural: definition
        for definition in definitions
        if definition.spec.group == GROUP
    }
    valid: dict[str, list[str]] = {}  # plurals by text
    for plural in wanted:
        definition = by_plural.get(plural)
        about = f"definition {plural}.{GROUP}"
        if definition is None:
            severity = info if plural in _OPTIONAL else error
            yield severity(about, "it is not installed", _INSTALL)
            continue
        versions = definition.spec.versions
        served = [version.name for version in versions if version.served]
        stored = next((version.name for version in versions if version.storage), "none")
        product = _installed_by(definition)
        if VERSION not in served:
            yield error(
                about, f"{product}; it serves {', '.join(served) or 'no version'} and not {VERSION}", _INSTALL
            )
        elif not is_true(definition.status.conditions, "Established"):
            yield error(about, f"{product}; the server does not serve it", "kubectl describe crd shows why")
        elif stored != VERSION:
            yield warning(
                about, f"{product}; it stores {stored}, which cannot store some fields of {VERSION}", _INSTALL
            )
        else:
            valid.setdefault(f"{product}; serve {', '.join(served)}, store {stored}", []).append(plural)
        old = [name for name in definition.status.stored_versions if name != stored]
        if old:
            yield info(
                about,
                f"objects may still be stored as {', '.join(old)}",
                "write each object once (kubectl get and replace) to store it in the new version; Kueue 0.20 "
                "does not serve v1beta1",
            )
    for says, plurals in valid.items():
        yield info(f"definitions of {GROUP}", f"{', '.join(plurals)}: {says}")


def unserved_findings(definitions: Iterable[Definition]) -> Iterator[PreflightFinding]:
    """Yield the kinds of Volcano that the server accepts, and that no process of Quorate reads."""
    for name in sorted({definition.metadata.name for definition in definitions} & set(_UNSERVED)):
        yield warning(
            f"definition {name}",
            "objects of this kind have no effect: no process of Quorate reads them",
            "create what they would create in another way, such as Jobs by a CronJob of batch/v1",
        )


def _installed_by(definition: Definition) -> str:
    labels = definition.metadata.labels
    name = labels.get("app.kubernetes.io/name", "")
    by_helm = " by Helm" if labels.get("app.kubernetes.io/managed-by") == "Helm" else ""
    if name in ("kueue", "quorate"):
        return f"{name.capitalize()}'s{by_helm}"
    generator = "controller-gen.kubebuilder.io/version" in definition.metadata.annotations
    return "Kueue's, by its annotations" if generator else "of unknown origin"


def conversion_findings(
    definitions: Iterable[Definition], endpoints: Mapping[Key, int]
) -> Iterator[PreflightFinding]:
    for definition in definitions:
        conversion = definition.spec.conversion
        if definition.spec.group != GROUP or conversion.strategy != "Webhook" or conversion.webhook is None:
            continue
        problem = _unreachable(conversion.webhook.client_config, endpoints)
        if problem:
            yield error(
                f"definition {definition.metadata.name}",
                f"the conversion webhook cannot be reached: {problem}",
                "start the controllers that serve it, or apply those of quorate crds, which need none",
            )


def webhook_findings(
    configurations: Iterable[WebhookConfiguration], endpoints: Mapping[Key, int]
) -> Iterator[PreflightFinding]:
    """Yield findings about the webhooks for queueing kinds and jobs; other webhooks are ignored."""
    ours = [configuration for configuration in configurations if _is_queueing(configuration)]
    if not ours:
        yield info("webhooks", "none are installed: jobs are suspended and validated after they are stored")
    for configuration in ours:
        about = f"webhooks {configuration.metadata.name}"
        problems: dict[tuple[str, str], list[str]] = {}
        for webhook in configuration.webhooks:
            problem = _unreachable(webhook.client_config, endpoints)
            if problem:
                problems.setdefault((problem, webhook.failure_policy), []).append(webhook.name)
        for (problem, policy), names in problems.items():
            which = f"{', '.join(names)}: {problem}"
            remedy = "start the controllers that serve them, or delete the configuration"
            if policy == "Fail":
                yield error(about, f"{which}; with failurePolicy Fail these writes are refused", remedy)
            else:
                yield warning(about, f"{which}; with failurePolicy {policy} they are skipped", remedy)
        if not problems:
            yield info(about, f"{len(configuration.webhooks)} webhooks, all can be reached")


def _is_queueing(configuration: WebhookConfiguration) -> bool:
    by_name = any(name in configuration.metadata.name for name in ("kueue", "quorate"))
    return by_name or any(
        GROUP in rule.api_groups for webhook in configuration.webhooks for rule in webhook.rules
    )


def _unreachable(client: ClientConfig, endpoints: Mapping[Key, int]) -> str:
    """Return why the API server cannot call the webhook; empty if it can, as far as objects show.

    ``endpoints``: the ready ones of each service.
    """
    if client.service is None:
        return "" if client.url else "it has neither a service nor a URL"
    key = Key(client.service.namespace, client.service.name)
    if key not in endpoints:
        return f"service {key} is missing, or has no endpoints"
    if endpoints[key] == 0:
        return f"service {key} has no ready pod"
    return "" if client.ca_bundle else "it has no caBundle, so its certificate is not trusted"


def manager_findings(
    deployments: Iterable[Deployment], leases: Iterable[HeldLease], lease_name: str, now: float
) -> Iterator[PreflightFinding]:
    """Yield the controllers that run; two of them at once would revert each other's writes."""
    running = [
        deployment for deployment in deployments if _product(deployment) and deployment.spec.replicas > 0
    ]
    for deployment in running:
        ready = f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready"
        yield info(f"deployment {deployment.metadata.key}", f"{_product(deployment)} is installed, {ready}")
    products = sorted({_product(deployment) for deployment in running})
    if len(products) > 1:
        yield error(
            "controllers",
            f"{' and '.join(products)} are both installed, and both would admit workloads",
            "scale one of them to 0 replicas",
        )
    holders = [lease for lease in leases if lease.metadata.name == lease_name and _is_held(lease, now)]
    for lease in holders:
        yield info(f"lease {lease.metadata.key}", f"held by {lease.spec.holder_identity}: it is the leader")
    if len(holders) > 1:
        yield error(
            "controllers",
            f"leaders are elected in {len(holders)} namespaces, so more than one admits workloads",
            "set the same leaderElection.resourceNamespace for all of them",
        )
    if not holders and not running:
        yield info("controllers", "none found; controllers without leader election cannot be detected")


def _product(deployment: Deployment) -> str:
    for image in deployment.images:
        name = image.rpartition("/")[2]
        if name.startswith("quorate"):
            return "Quorate"
        if name.partition(":")[0].partition("@")[0] == "kueue":
            return "Kueue"
    return ""


def _is_held(lease: HeldLease, now: float) -> bool:
    renewed = lease.spec.renew_time
    return (
        bool(lease.spec.holder_identity)
        and renewed is not None
        and epoch(renewed) + lease.spec.lease_duration_seconds >= now
    )


def access_findings(about: str, denied_requests: Mapping[str, tuple[str, ...]]) -> Iterator[PreflightFinding]:
    """Yield findings about ``denied_requests``, which are by purpose."""
    for needed_for, requests in denied_requests.items():
        yield error(
            about,
            f"{needed_for}: may not {', '.join(requests)}",
            "kubectl apply -k deploy; for declaredFrameworks add a role",
        )
    if not denied_requests:
        yield info(about, "they suffice to run the controllers")


OLD_VERSION: Final = "v1beta1"
_REMEDY: Final = "change its manifests and clients to v1beta2 before Kueue 0.20 or newer decides here"


class FieldOwner(Struct):
    manager: str = ""
    api_version: str = ""


class WrittenMetadata(ObjectMeta):
    managed_fields: tuple[FieldOwner, ...] = ()


class WrittenObject(Struct):
    """A queueing object, of which only the owners of its fields are read."""

    metadata: WrittenMetadata


def written_kinds(definitions: Iterable[Definition]) -> list[Resource[WrittenObject]]:
    """Return the queueing kinds that the cluster serves in the old version, too."""
    return [
        Resource(
            GROUP,
            version.name,
            names.plural,
            names.kind,
            definition.spec.scope == "Namespaced",
            WrittenObject,
        )
        for definition in definitions
        if definition.spec.group == GROUP
        and any(one.served and one.name == OLD_VERSION for one in definition.spec.versions)
        for names in (definition.spec.names,)
        for version in definition.spec.versions
        if version.served and version.storage
    ]


def old_client_findings(
    written: Iterable[tuple[Resource[WrittenObject], Iterable[WrittenObject]]],
) -> Iterator[PreflightFinding]:
    """Yield the clients that last wrote fields of an object as v1beta1, by ``metadata.managedFields``."""
    objects: dict[str, list[str]] = {}  # by field manager
    for resource, stored in written:
        for obj in stored:
            where = f"{obj.metadata.namespace}/" if obj.metadata.namespace else ""
            owners = {
                owner.manager
                for owner in obj.metadata.managed_fields
                if owner.api_version == f"{GROUP}/{OLD_VERSION}"
            }
            for manager in sorted(owners):
                objects.setdefault(manager, []).append(f"{resource.plural}/{where}{obj.metadata.name}")
    for manager, names in sorted(objects.items()):
        says = f"it wrote {some(names)} as {OLD_VERSION}"
        yield info(f"client {manager or 'without a name'}", says, _REMEDY)
