"""The files of an installation: as in ``deploy/``, or with other namespaces and image."""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

import yaml

from quorate.api.codec import Json
from quorate.api.configuration import load_configuration
from quorate.api.crds import to_yaml
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.install import controllers as c
from quorate.install import dashboard, monitoring, multikueue_worker, scheduler, witness
from quorate.install.controllers import native_gangs
from quorate.install.crds import deletion_policy, gang_definitions, queueing_definitions
from quorate.install.manifest_builders import namespace_object
from quorate.install.roles import ACCOUNT, controller_roles, gang_roles, metrics_reader, user_roles
from quorate.install.visibility import api_services, auth_reader, priority_and_fairness
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion, webhook_configurations

KUSTOMIZE: Final = "kustomize.config.k8s.io/v1beta1"
GANG: Final = PurePosixPath("gang")  # the directory of the gang scheduler
DASHBOARD: Final = PurePosixPath("dashboard")
WITNESS: Final = PurePosixPath("witness")
MULTIKUEUE_WORKER: Final = PurePosixPath("multikueue-worker")
MONITORING: Final = PurePosixPath("monitoring")
IMAGE: Final = "quorate:0.2.0"
_RELEASE: Final = "namespace-of-the-release"  # replaced by the namespace of the release
_WRITTEN_BY: Final = "# Written by `quorate manifests`; changes are lost when the file is written again.\n"


def installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the text of each file.  The definitions are separate files, see ``write_definitions``."""
    return _installation(
        PurePosixPath(),
        {
            "namespace": [namespace_object(namespace)],
            "controllers-role": controller_roles(namespace),
            "people-roles": [*user_roles(), metrics_reader()],
            "configuration": [c.configuration(namespace)],
            "controllers": c.workload(namespace, image),
            "services": c.services(namespace),
            "webhooks": webhooks(namespace),
            "visibility": [auth_reader(namespace), *api_services(namespace)],
            "network-policy": [c.CONTROLLERS.network_policy(namespace)],
            "optional/service-monitor": [c.CONTROLLERS.service_monitor(namespace)],
            "optional/priority-and-fairness": priority_and_fairness(),
            "optional/definition-deletion": deletion_policy(),
            "optional/native-gangs": native_gangs(namespace),
        },
        [f"crds/{definition['metadata']['name']}.yaml" for definition in queueing_definitions()],
    )


def gang_installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the files of the gang scheduler, which is installed separately, without its definitions."""
    return _installation(
        GANG,
        {
            "namespace": [namespace_object(namespace)],
            "scheduler-role": scheduler.roles(namespace),
            "people-roles": gang_roles(),
            "configuration": [scheduler.configuration(namespace)],
            "scheduler": scheduler.workload(namespace, image),
            "service": [scheduler.service(namespace)],
            "network-policy": [scheduler.SCHEDULER.network_policy(namespace)],
            "optional/demand-role": scheduler.demand_roles(namespace),
            "optional/service-monitor": [scheduler.SCHEDULER.service_monitor(namespace)],
        },
    )


def dashboard_installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the files of the dashboard, which is installed separately."""
    return _installation(
        DASHBOARD,
        {
            "namespace": [namespace_object(namespace)],
            "role": dashboard.roles(namespace),
            "dashboard": dashboard.workload(namespace, image),
            "service": [dashboard.service(namespace)],
            "network-policy": [dashboard.DASHBOARD.network_policy(namespace)],
        },
    )


def witness_installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the files of the witness, which needs the controllers' namespace and Configuration."""
    return _installation(
        WITNESS,
        {
            "role": witness.roles(namespace),
            "witness": witness.workload(namespace, image),
            "service": [witness.service(namespace)],
            "network-policy": [witness.WITNESS.network_policy(namespace)],
        },
    )


def multikueue_worker_installation(namespace: str) -> Mapping[PurePosixPath, str]:
    """Return the files with which a worker cluster admits a MultiKueue manager."""
    return _installation(
        MULTIKUEUE_WORKER,
        {"namespace": [namespace_object(namespace)], "manager-account": multikueue_worker.account(namespace)},
    )


def monitoring_files(namespace: str) -> Mapping[PurePosixPath, str]:
    """Return alerts and dashboards, which need the Prometheus operator and Grafana."""
    return {
        MONITORING / "kustomization.yaml": _kustomization(["alerts.yaml"], monitoring.config_map_generator()),
        MONITORING / "alerts.yaml": _text([monitoring.alerts(namespace)]),
        **{MONITORING / name: text for name, text in monitoring.dashboards().items()},
    }


def _installation(
    directory: PurePosixPath, contents: Mapping[str, Iterable[Json]], definitions: Iterable[str] = ()
) -> Mapping[PurePosixPath, str]:
    """Return the files of ``contents``, a kustomization of the needed ones, and a page about the others."""
    files = {directory / f"{name}.yaml": _text(objects) for name, objects in contents.items()}
    needed = sorted(name.name for name in files if name.parent == directory)
    optional = sorted(name.name for name in files if name.parent != directory)
    files[directory / "kustomization.yaml"] = _kustomization([*needed, *definitions])
    if optional:
        files[directory / "optional/README.md"] = _optional_readme(optional)
    return files


def _kustomization(resources: list[str], generators: Json | None = None) -> str:
    fields = {"resources": resources, **(generators or {})}
    return _text([{"apiVersion": KUSTOMIZE, "kind": "Kustomization", **fields}])


def chart() -> Mapping[PurePosixPath, str]:
    """Return the templates of the Helm chart made from the same objects, each under conditions on values."""
    gang = ".Values.gangScheduler.enabled"
    shown = ".Values.dashboard.enabled"
    witnessed = ".Values.witness.enabled"
    endpoint = WebhookEndpoint(namespace=_RELEASE, service=c.WEBHOOK_SERVICE)
    converted = queueing_definitions(dict.fromkeys(CONVERTED_KINDS, conversion(endpoint)))
    files = {
        name: _if(conditions, _in_release(_literal(_text(objects))))
        for name, conditions, objects in (
            ("controllers-role", (), controller_roles(_RELEASE)),
            ("people-roles", (), [*user_roles(), metrics_reader()]),
            ("webhooks", (".Values.enableWebhooks",), webhooks(_RELEASE)),
            ("network-policy", (".Values.networkPolicy.enabled",), [c.CONTROLLERS.network_policy(_RELEASE)]),
            ("service-monitor", (".Values.enablePrometheus",), [c.CONTROLLERS.service_monitor(_RELEASE)]),
            ("alerts", (".Values.enableAlerts",), [monitoring.alerts(_RELEASE)]),
            ("visibility", (), api_services(_RELEASE)),
            (
                "visibility-auth-reader",
                (".Values.enableVisibilityAuthReaderRoleBinding",),
                [auth_reader(_RELEASE)],
            ),
            ("priority-and-fairness", (".Values.enableVisibilityAPF",), priority_and_fairness()),
            ("definition-deletion", (".Values.crds.refuseDeletion",), deletion_policy()),
            ("native-gangs", (".Values.nativeGangs.enabled",), native_gangs(_RELEASE)),
            ("scheduler-role", (gang,), scheduler.roles(_RELEASE)),
            ("gang-people-roles", (gang,), gang_roles()),
            (
                "scheduler-demand-role",
                (gang, ".Values.gangScheduler.provisioningClass"),
                scheduler.demand_roles(_RELEASE),
            ),
            ("dashboard-role", (shown,), dashboard.roles(_RELEASE)),
            ("witness-role", (witnessed,), witness.roles(_RELEASE)),
            (
                "witness-service-monitor",
                (witnessed, ".Values.enablePrometheus"),
                [witness.WITNESS.service_monitor(_RELEASE)],
            ),
            (
                "scheduler-service-monitor",
                (gang, ".Values.enablePrometheus"),
                [scheduler.SCHEDULER.service_monitor(_RELEASE)],
            ),
        )
    }
    files["crds"] = _if((".Values.crds.enabled",), _WRITTEN_BY + _chart_definitions(converted))
    files["gang-crds"] = _if(
        (".Values.crds.enabled", gang), _WRITTEN_BY + _chart_definitions(gang_definitions())
    )
    return {PurePosixPath(f"helm/quorate/templates/{name}.yaml"): text for name, text in files.items()}


def _if(conditions: Iterable[str], text: str) -> str:
    """Return the text wrapped in all conditions."""
    for condition in reversed(tuple(conditions)):
        text = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    return text


def _literal(text: str) -> str:
    """Return the text with the templates of Prometheus kept from Helm."""
    return re.sub(r"(?s)\{\{.*?\}\}", lambda template: f"{{{{ `{template[0]}` }}}}", text)


def _in_release(text: str) -> str:
    """Return the text for the namespace of the release; webhooks get the annotation of cert-manager."""
    text = re.sub(
        r"(  name: quorate-\w+-webhook-configuration\n)",
        rf"\1  labels:\n{_LABELS}{_if_cert_manager(_ANNOTATED)}",
        text,
    )
    text = re.sub(r"(?m)^(  labels:\n    app\.kubernetes\.io/name: quorate\n)", rf"\1{_LABELS}", text)
    return text.replace(_RELEASE, "{{ .Release.Namespace }}")


def _chart_definitions(definitions: Iterable[Json]) -> str:
    """Return definitions that this release installs and keeps; one of another owner stays as it is."""
    parts = []
    for definition in definitions:
        name = definition["metadata"]["name"]
        text = _in_release(to_yaml(definition))
        converted = "conversionReviewVersions" in text
        kept = f"  annotations:\n    {_KEEP}\n{_if_cert_manager(_INJECT) if converted else ''}"
        text = text.replace(f"  name: {name}\n", f"  name: {name}\n{kept}", 1)
        lookup = f'lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "{name}"'
        written = 'dig "metadata" "annotations" "meta.helm.sh/release-{}" "" $found'
        ours = " ".join(
            f"(eq ({written.format(part.lower())}) .Release.{part})" for part in ("Name", "Namespace")
        )
        parts.append(
            f"{{{{- $found := {lookup} }}}}\n"
            f"{{{{- if or (not $found) (and {ours}) }}}}\n---\n{text}{{{{- end }}}}\n"
        )
    return "".join(parts)


def _if_cert_manager(text: str) -> str:
    return f"  {{{{- if .Values.enableCertManager }}}}\n{text}  {{{{- end }}}}\n"


_LABELS: Final = '    {{- include "quorate.labels" . | nindent 4 }}\\n'
_KEEP: Final = "helm.sh/resource-policy: keep"  # deleting a definition deletes every object of its kind
_INJECT: Final = "    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/kueue-serving-cert\n"
_ANNOTATED: Final = f"  annotations:\n{_INJECT}"


def webhooks(namespace: str) -> tuple[Json, Json]:
    """Return the webhook configurations for the kinds of the shipped Configuration."""
    configuration = load_configuration(c.configuration_text(namespace)).configuration
    endpoint = WebhookEndpoint(namespace=namespace, service=configuration.certificates.service)
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    return webhook_configurations(configuration, served_routes(configuration), endpoint, user)


_OPTIONAL: Final = {
    "definition-deletion.yaml": "refuses to delete a definition, and with it every object of its kind",
    "demand-role.yaml": "lets the scheduler create ProvisioningRequests (`--provisioning-class`)",
    "native-gangs.yaml": "makes the pods of jobs members of Kubernetes' own pod groups (`gangs: native`)",
    "service-monitor.yaml": "lets the Prometheus operator scrape the metrics; needs its definitions",
    "priority-and-fairness.yaml": "limits the share of API server capacity that visibility requests use",
}


def _optional_readme(names: Iterable[str]) -> str:
    lines = [f"- `{name}` {_OPTIONAL[name]}" for name in names]
    return "\n".join(["Optional manifests; apply one with `kubectl apply -f FILE`:", "", *lines, ""])


def _text(objects: Iterable[Json]) -> str:
    documents = [yaml.dump(obj, Dumper=_Dumper, sort_keys=False, width=110) for obj in objects]
    return _WRITTEN_BY + "---\n".join(documents)


class _Dumper(yaml.CSafeDumper):
    """Write texts of several lines as blocks and no aliases, because people read the files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)
