"""``quorate crds``: write the CustomResourceDefinitions as files."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.crds import (
    DESCRIPTIONS,
    KUEUE_FIELDS,
    VOLCANO_FIELDS,
    custom_resource_definitions,
    to_yaml,
)
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.cli.deployment.roles import metadata
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion

Json = dict[str, Any]

ALLOW_DELETION: Final = "quorate.dev/allow-deletion"  # annotation of a definition
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_POLICY: Final = "quorate-definition-deletion"
GANG: Final = "gang"  # directory of Volcano's groups, which a cluster may have from Volcano
_SERVICE: Final = WebhookEndpoint(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)


def queueing_definitions(conversions: Mapping[str, Json] | None = None) -> tuple[Json, ...]:
    """Return those of ``kueue.x-k8s.io``; for ``conversions`` see ``custom_resource_definitions``."""
    return custom_resource_definitions(_shipped(KUEUE_FIELDS), conversions, _shipped(DESCRIPTIONS))


def gang_definitions() -> tuple[Json, ...]:
    """Return those of Volcano's groups."""
    return custom_resource_definitions(_shipped(VOLCANO_FIELDS), descriptions=_shipped(DESCRIPTIONS))


def _shipped(name: str) -> str:
    """Return the text of a file that ships with the package."""
    return (files("quorate.api.crds") / name).read_text(encoding="utf-8")


def deletion_policy() -> Iterator[Json]:
    """Yield the admission policy that refuses to delete a definition, and the binding of the policy.

    With a definition every object of its kind is deleted.  A policy needs no server that can be down, and
    sees no other objects: it cannot count those of the kind.
    """
    groups = sorted({each["spec"]["group"] for each in (*queueing_definitions(), *gang_definitions())})
    allowed = f"oldObject.metadata.?annotations[?'{ALLOW_DELETION}'].orValue('') == 'true'"
    message = (
        "'with this definition every ' + oldObject.spec.names.kind + ' of the cluster is deleted "
        f"(to allow it: kubectl annotate crd ' + oldObject.metadata.name + ' {ALLOW_DELETION}=true)'"
    )
    yield {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(_POLICY),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["apiextensions.k8s.io"],
                        "apiVersions": ["*"],
                        "operations": ["DELETE"],
                        "resources": ["customresourcedefinitions"],
                    }
                ]
            },
            "matchConditions": [{"name": "group", "expression": f"oldObject.spec.group in {groups}"}],
            "validations": [{"expression": allowed, "messageExpression": message, "reason": "Forbidden"}],
        },
    }
    yield {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(_POLICY),
        "spec": {"policyName": _POLICY, "validationActions": ["Deny"]},
    }


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per kind.")],
    conversion_webhook: Annotated[
        bool,
        typer.Option("--conversion-webhook", help="Set the conversion webhook of the controllers."),
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions, to install them in a cluster.

    Without a conversion webhook the definitions refuse the fields of v1beta1 that have other names in
    v1beta2: they would be lost. The definitions for gang scheduling are in the subdirectory gang, for
    clusters without those of Volcano.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    write_definitions(output, _SERVICE if conversion_webhook else None)


def write_definitions(output: Path, webhook: WebhookEndpoint | None) -> None:
    """Write one file per kind; ``webhook`` None: no webhook converts kinds with two versions."""
    conversions = {} if webhook is None else dict.fromkeys(CONVERTED_KINDS, conversion(webhook))
    _write(output, queueing_definitions(conversions))
    _write(output / GANG, gang_definitions())


def _write(directory: Path, definitions: tuple[Json, ...]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for definition in definitions:
        target = directory / f"{definition['metadata']['name']}.yaml"
        target.write_text(to_yaml(definition), encoding="utf-8")
        typer.echo(target)
