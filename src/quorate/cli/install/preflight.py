"""``quorate preflight``: check a cluster and print the findings."""

from typing import Annotated

import typer

from quorate.api.meta import Struct
from quorate.cli.configuration_options import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.inspect.cluster_model import effective_configuration
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.preflight import Preflight
from quorate.install.preflight.findings import PreflightFinding, Severity, by_severity, info

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
    output: o.Format = o.Output.TABLE,
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
