"""The files of an installation: those of ``deploy/``, or the same with other namespaces and image."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from quorate.api.configuration import load_configuration
from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.cli.deployment import controllers as c
from quorate.cli.deployment import scheduler
from quorate.cli.deployment.crds import queueing_definitions
from quorate.cli.deployment.manifest_builders import namespace_object
from quorate.cli.deployment.roles import (
    ACCOUNT,
    controller_roles,
    gang_roles,
    metrics_reader,
    user_roles,
)
from quorate.cli.deployment.visibility import api_services, auth_reader, priority_and_fairness
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion, webhook_configurations

Json = dict[str, Any]

KUSTOMIZE: Final = "kustomize.config.k8s.io/v1beta1"
GANG: Final = PurePosixPath("gang")  # the directory of the gang scheduler
IMAGE: Final = "quorate:0.2.0"
_RELEASE: Final = "namespace-of-the-release"  # replaced by the namespace of the release
_WRITTEN_BY: Final = "# Written by `quorate manifests`; changes are lost when the file is written again.\n"


def installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the text of each file.  The definitions are separate files, written by ``quorate crds``."""
    files = dict(_files(namespace, image))
    definitions = [f"crds/{each['metadata']['name']}.yaml" for each in queueing_definitions()]
    needed = sorted(str(name) for name in files if name.parent == PurePosixPath())
    files[PurePosixPath("kustomization.yaml")] = _text([_kustomization(namespace, [*needed, *definitions])])
    optional = sorted(name.name for name in files if name.parent.name == "optional")
    files[PurePosixPath("optional/README.md")] = _optional_readme(optional)
    return files


def gang_installation(namespace: str, image: str) -> Mapping[PurePosixPath, str]:
    """Return the files of the gang scheduler, which is installed separately, without its definitions."""
    files = {
        GANG / f"{name}.yaml": _text(objects)
        for name, objects in (
            ("namespace", [namespace_object(namespace)]),
            ("scheduler-role", scheduler.roles(namespace)),
            ("people-roles", gang_roles()),
            ("configuration", [scheduler.configuration(namespace)]),
            ("scheduler", scheduler.workload(namespace, image)),
            ("service", [scheduler.service(namespace)]),
            ("network-policy", [scheduler.network_policy(namespace)]),
            ("optional/demand-role", scheduler.demand_roles(namespace)),
            ("optional/legacy-role", scheduler.legacy_roles(namespace)),
            ("optional/service-monitor", [scheduler.service_monitor(namespace)]),
        )
    }
    needed = sorted(name.name for name in files if name.parent == GANG)
    files[GANG / "kustomization.yaml"] = _text(
        [{"apiVersion": KUSTOMIZE, "kind": "Kustomization", "resources": needed}]
    )
    optional = sorted(name.name for name in files if name.parent == GANG / "optional")
    files[GANG / "optional/README.md"] = _optional_readme(optional)
    return files


def chart() -> Mapping[PurePosixPath, str]:
    """Return the templates of the Helm chart made from the same objects, each under a condition on values."""
    templates = PurePosixPath("helm/quorate/templates")
    return {
        templates / f"{name}.yaml": _conditional(conditions, text)
        for name, conditions, objects in (
            ("controllers-role", "", controller_roles(_RELEASE)),
            ("people-roles", "", [*user_roles(), metrics_reader()]),
            ("webhooks", ".Values.enableWebhooks", webhooks(_RELEASE)),
            ("network-policy", ".Values.networkPolicy.enabled", [c.network_policy(_RELEASE)]),
            ("service-monitor", ".Values.enablePrometheus", [c.service_monitor(_RELEASE)]),
            ("visibility", "", api_services(_RELEASE)),
            (
                "visibility-auth-reader",
                ".Values.enableVisibilityAuthReaderRoleBinding",
                [auth_reader(_RELEASE)],
            ),
            ("priority-and-fairness", ".Values.enableVisibilityAPF", priority_and_fairness()),
            ("scheduler-role", ".Values.gangScheduler.enabled", scheduler.roles(_RELEASE)),
            ("gang-people-roles", ".Values.gangScheduler.enabled", gang_roles()),
            (
                "scheduler-demand-role",
                ".Values.gangScheduler.provisioningClass",
                scheduler.demand_roles(_RELEASE),
            ),
            (
                "scheduler-legacy-role",
                ".Values.gangScheduler.legacyApis",
                scheduler.legacy_roles(_RELEASE),
            ),
            (
                "scheduler-service-monitor",
                ".Values.gangScheduler.enabled .Values.enablePrometheus",
                [scheduler.service_monitor(_RELEASE)],
            ),
        )
        for text in (_text(objects).replace(_RELEASE, "{{ .Release.Namespace }}"),)
    }


def _conditional(conditions: str, text: str) -> str:
    """Return the file wrapped in all conditions; webhooks get the annotation of cert-manager if enabled."""
    text = re.sub(r"(  name: quorate-\w+-webhook-configuration\n)", rf"\1{_INJECTED}", text)
    for condition in reversed(conditions.split()):
        text = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    return text


_INJECTED: Final = """\
  {{- if .Values.enableCertManager }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/kueue-serving-cert
  {{- end }}
"""


def _files(namespace: str, image: str) -> Iterator[tuple[PurePosixPath, str]]:
    for name, objects in (
        ("namespace", [namespace_object(namespace)]),
        ("controllers-role", controller_roles(namespace)),
        ("people-roles", [*user_roles(), metrics_reader()]),
        ("configuration", [c.configuration(namespace)]),
        (
            "controllers",
            [c.service_account(namespace), c.deployment(namespace, image), c.disruption_budget(namespace)],
        ),
        ("services", c.services(namespace)),
        ("webhooks", webhooks(namespace)),
        ("visibility", [auth_reader(namespace), *api_services(namespace)]),
        ("network-policy", [c.network_policy(namespace)]),
        ("optional/service-monitor", [c.service_monitor(namespace)]),
        ("optional/priority-and-fairness", priority_and_fairness()),
    ):
        yield PurePosixPath(f"{name}.yaml"), _text(objects)


def webhooks(namespace: str) -> tuple[Json, Json]:
    """Return the webhook configurations for the kinds of the shipped Configuration."""
    configuration = load_configuration(c.configuration_text(namespace)).configuration
    endpoint = WebhookEndpoint(namespace=namespace, service=configuration.certificates.service)
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    return webhook_configurations(configuration, served_routes(configuration), endpoint, user)


def _kustomization(namespace: str, resources: list[str]) -> Json:
    """Return the kustomization, which sets the conversion webhook of definitions with two versions."""
    by_webhook = conversion(WebhookEndpoint(namespace=namespace, service=c.WEBHOOK_SERVICE))
    replaced = [{"op": "replace", "path": "/spec/conversion", "value": by_webhook}]
    return {
        "apiVersion": KUSTOMIZE,
        "kind": "Kustomization",
        "resources": resources,
        "patches": [
            {
                "target": {"kind": "CustomResourceDefinition", "name": f"{kind.lower()}s.{GROUP}"},
                "patch": yaml.dump(replaced, Dumper=_Dumper, sort_keys=False),
            }
            for kind in CONVERTED_KINDS
        ],
    }


_OPTIONAL: Final = {
    "demand-role.yaml": "lets the scheduler create ProvisioningRequests (`--provisioning-class`)",
    "legacy-role.yaml": "lets the scheduler read pod groups of kube-batch's API groups (`--legacy-apis`)",
    "service-monitor.yaml": "lets the Prometheus operator scrape the metrics; needs its definitions",
    "priority-and-fairness.yaml": "limits the share of API server capacity that visibility requests use",
}


def _optional_readme(names: Iterable[str]) -> str:
    lines = [f"- `{name}` {_OPTIONAL[name]}" for name in names]
    return "\n".join(["Optional manifests; apply one with `kubectl apply -f FILE`:", "", *lines, ""])


def _text(objects: Iterable[Json]) -> str:
    documents = [yaml.dump(each, Dumper=_Dumper, sort_keys=False, width=110) for each in objects]
    return _WRITTEN_BY + "---\n".join(documents)


class _Dumper(yaml.SafeDumper):
    """Write texts of several lines as blocks and no aliases, because people read the files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)
