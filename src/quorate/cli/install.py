"""The commands of an installation: write definitions, manifests and webhook configurations; preflight."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from quorate.api.codec import Json
from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.api.configuration.webhooks import CertificateManagement
from quorate.api.crds import to_yaml
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.meta import Struct
from quorate.cli.configuration_options import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.inspect.cluster_model import effective_configuration
from quorate.inspect.configuration_files import read_configuration
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.preflight import Preflight
from quorate.install.controllers import WEBHOOK_SERVICE
from quorate.install.crds import GANG, gang_definitions, queueing_definitions
from quorate.install.manifests import (
    IMAGE,
    chart,
    dashboard_installation,
    gang_installation,
    installation,
    monitoring_files,
    multikueue_worker_installation,
    witness_installation,
)
from quorate.install.preflight.findings import PreflightFinding, Severity, by_severity, info
from quorate.install.roles import ACCOUNT
from quorate.install.scheduler import NAMESPACE
from quorate.webhooks.process import served_routes
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion, webhook_configurations


def manifests(
    output: Annotated[Path, typer.Option(metavar="DIR", help="The directory to write into.")],
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the controllers and of the dashboard.")
    ] = DEFAULT_NAMESPACE,
    image: Annotated[str, typer.Option(metavar="IMAGE", help="The container image.")] = IMAGE,
    scheduler_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="The namespace of the gang scheduler.")
    ] = NAMESPACE,
    multikueue_worker: Annotated[
        bool,
        typer.Option(
            "--multikueue-worker",
            help="Write only what a worker cluster needs besides an installation: the account of a "
            "MultiKueue manager, with the least role.",
        ),
    ] = False,
    with_chart: Annotated[
        bool, typer.Option("--with-chart", help="Also write the generated templates of the Helm chart.")
    ] = False,
) -> None:
    """Write the manifests of an installation, to apply with kubectl.

    The manifests of the gang scheduler, of the dashboard and of the witness are in directories of their own
    (gang, dashboard, witness), and so are alerts and Grafana dashboards (monitoring), and the account of a
    MultiKueue manager (multikueue-worker); each is applied separately.

    [b]Example:[/b] quorate manifests --output install --image registry.example/quorate:0.2.0
    """
    if multikueue_worker:
        _write(output, multikueue_worker_installation(namespace))
        return
    write_definitions(output / "crds", WebhookEndpoint(namespace=namespace, service=WEBHOOK_SERVICE))
    files = {
        **installation(namespace, image),
        **gang_installation(scheduler_namespace, image),
        **dashboard_installation(namespace, image),
        **witness_installation(namespace, image),
        **monitoring_files(namespace),
        **multikueue_worker_installation(namespace),
    }
    if with_chart:
        files.update(chart())
    _write(output, files)


def _write(output: Path, files: Mapping[PurePosixPath, str]) -> None:
    for name, text in files.items():
        target = output / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(target)


def crds(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per kind.")],
    conversion_webhook: Annotated[
        bool, typer.Option("--conversion-webhook", help="Set the conversion webhook of the controllers.")
    ] = False,
) -> None:
    """Write the CustomResourceDefinitions, to install them in a cluster.

    Without a conversion webhook the definitions refuse the fields of v1beta1 that have other names in
    v1beta2: they would be lost. The definitions for gang scheduling are in the subdirectory gang, for
    clusters without those of Volcano.

    [b]Example:[/b] quorate crds --output crds && kubectl apply --server-side -f crds
    """
    service = WebhookEndpoint(namespace=DEFAULT_NAMESPACE, service=CertificateManagement().service)
    write_definitions(output, service if conversion_webhook else None)


def write_definitions(output: Path, webhook: WebhookEndpoint | None) -> None:
    """Write one file per kind; ``webhook`` None: no webhook converts kinds with two versions."""
    conversions = {} if webhook is None else dict.fromkeys(CONVERTED_KINDS, conversion(webhook))
    _write_objects(output, queueing_definitions(conversions))
    _write_objects(output / GANG, gang_definitions())


def _write_objects(output: Path, objects: Iterable[Json]) -> None:
    """Write each object into the file of its name."""
    _write(output, {PurePosixPath(f"{obj['metadata']['name']}.yaml"): to_yaml(obj) for obj in objects})


def webhooks(
    output: Annotated[Path, typer.Option(help="The directory to write into, one file per configuration.")],
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The Configuration of the controllers. Default: all defaults."),
    ] = None,
    service_account: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The service account of the controllers; its requests skip the webhooks."
        ),
    ] = ACCOUNT,
) -> None:
    """Write the webhook configurations for the kinds of a Configuration.

    The controllers inject the CA bundle.

    [b]Example:[/b] quorate webhooks --config configuration.yaml --output hooks && kubectl apply -f hooks
    """
    configuration = read_configuration(config).configuration
    endpoint = WebhookEndpoint(namespace=configuration.namespace, service=configuration.certificates.service)
    user = f"system:serviceaccount:{configuration.namespace}:{service_account}"
    _write_objects(
        output, webhook_configurations(configuration, served_routes(configuration), endpoint, user)
    )


_COLOURS = {"ERROR": "red", "WARNING": "yellow"}


class Report(Struct):
    errors: int
    warnings: int
    remarks: tuple[PreflightFinding, ...]


def preflight(
    config: Config = None,
    account: Annotated[
        str,
        typer.Option(
            "--service-account",
            metavar="NAMESPACE/NAME",
            help="The service account to check permissions of, such as kueue-system/quorate-controllers. "
            "Default: your own permissions.",
        ),
    ] = "",
    output: o.ValueFormat = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Check a cluster before or after an installation; report problems and remedies.

    Checks the version of the server, the queueing definitions, permissions, webhooks, running controllers
    and the configuration of queues. Nothing is written.

    [b]Exit code:[/b]
    0 no errors
    1 there are errors
    2 the cluster cannot be checked

    [b]Example:[/b] quorate preflight --service-account kueue-system/quorate-controllers
    """
    if account and account.count("/") != 1:
        raise UsageError(f"--service-account: {account!r} is not NAMESPACE/NAME")

    async def check(connection: Connection) -> tuple[PreflightFinding, ...]:
        used = await effective_configuration(connection.client, config)
        findings = await Preflight(connection.client, used.configuration, account).run()
        return (*findings, info("configuration", f"evaluated with {used.origin}"))

    findings = by_severity(with_cluster(ClusterOptions(kubeconfig, context), check))
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    if is_structured(output):
        print_value(Report(errors=errors, warnings=warnings, remarks=findings), output)
    else:
        rows = [(finding.severity.upper(), finding.about, _finding_text(finding)) for finding in findings]
        print_rows(("SEVERITY", "ABOUT", "FINDING (REMEDY)"), rows, colours=_COLOURS)
    raise typer.Exit(1 if errors else 0)


def _finding_text(finding: PreflightFinding) -> str:
    return f"{finding.says} ({finding.remedy})" if finding.remedy else finding.says
