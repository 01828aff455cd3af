"""Options and start of the commands of long-running processes."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from quorate.api.configuration.process import Address, parse_address
from quorate.kube.log import Format, configure, logger
from quorate.processes.process_setup import raise_file_limit, tune_garbage_collection


def listen_address(written: str) -> Address:
    """Return the address of an option.  Raises ``typer.BadParameter``."""
    address = parse_address(written)
    if address is None:
        raise typer.BadParameter(f"{written!r} is no address (write :8081 or 127.0.0.1:8081)")
    return address


Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the service account of the pod.",
    ),
]
LogFormat = Annotated[
    Format, typer.Option(help="Format of the log on standard error: readable lines, or JSON.")
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Read the configuration file, print what in it has no effect, and exit: 0 if it is valid, "
        "else 2. No cluster is needed.",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log debug messages.")]
HealthAddress = Annotated[
    Address | None,
    typer.Option(
        metavar="ADDRESS",
        parser=listen_address,
        help="The address for the probes of the kubelet, such as :8081. Default: none.",
        show_default=False,
    ),
]
MetricsAddress = Annotated[
    Address | None,
    typer.Option(
        metavar="ADDRESS",
        parser=listen_address,
        help="The address for Prometheus, such as :8080. Other than on localhost: over TLS, for clients "
        "with permission to get /metrics. Default: none.",
        show_default=False,
    ),
]


def report_check(file: Path | None, warnings: Iterable[str]) -> None:
    """Print the ``warnings`` about a configuration file that was read, and that it is valid."""
    name = file or "the defaults"
    for warning in warnings:
        typer.echo(f"warning: {name}: {warning}")
    typer.echo(f"{name}: valid")


def start_process(
    log_format: Format, verbose: bool, file: Path | None = None, warnings: Iterable[str] = ()
) -> None:
    """Configure the log and the limits of this process; log the ``warnings`` about a configuration file."""
    configure(log_format, logging.DEBUG if verbose else logging.INFO)
    for warning in warnings:
        logger(__name__).warning("configuration", file=file, finding=warning)
    raise_file_limit()
    tune_garbage_collection()
