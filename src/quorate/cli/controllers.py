"""``quorate controllers``: run the queueing controllers for a cluster."""

import random
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop

from quorate.api.configuration import Configuration
from quorate.api.configuration.process import Address
from quorate.cli.process_options import Check, Kubeconfig, LogFormat, Verbose, report_check, start_process
from quorate.cli.verbs.options import Context
from quorate.inspect.configuration_files import read_configuration_text
from quorate.kube.clock import WallClock
from quorate.kube.log import logger
from quorate.kube.rest.config import load_rest_config
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.controllers import run_controller_process
from quorate.processes.process_setup import election_client, wait_for_signal

WEBHOOK_ADDRESS: Final = Address("127.0.0.1", 9443)  # unless the Configuration has one


def controllers(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Configuration of config.kueue.x-k8s.io. Default: all defaults."),
    ] = None,
    webhooks: Annotated[
        bool | None,
        typer.Option(
            "--webhooks/--no-webhooks",
            help="Serve webhooks, on 127.0.0.1:9443 if the Configuration has no address. "
            "Default: if it has the field webhook.",
            show_default=False,
        ),
    ] = None,
    check: Check = False,
    log_format: LogFormat = "console",
    verbose: Verbose = False,
) -> None:
    """Run the queueing controllers for a cluster until Ctrl-C or SIGTERM.

    All state is in the cluster, so they can be stopped and restarted at any time.
    Changes of the Configuration file are applied at runtime where possible.
    With [b]leaderElection.leaderElect[/b] in the Configuration one replica is the leader, the rest stand by.

    [b]Example:[/b] quorate controllers --kubeconfig ~/.quorate/local/kubeconfig --config configuration.yaml
    """
    text, loaded = read_configuration_text(config)
    if check:
        report_check(config, loaded.warnings)
        return
    start_process(log_format, verbose, config, loaded.warnings)
    in_force = ConfigurationInForce(
        config, text, loaded.configuration, lambda new: _with_webhooks(new, webhooks)
    )
    uvloop.run(_serve(kubeconfig, context, in_force))


def _with_webhooks(configuration: Configuration, enabled: bool | None) -> Configuration:
    """Return ``configuration`` with webhooks enabled or disabled; None does not change it.

    Webhooks enabled without an address are served on loopback only; any other address must be configured.
    """
    webhooks = configuration.webhooks
    if enabled is None or enabled is (webhooks.address is not None):
        return configuration
    changed = msgspec.structs.replace(webhooks, address=WEBHOOK_ADDRESS if enabled else None)
    return msgspec.structs.replace(configuration, webhooks=changed)


async def _serve(kubeconfig: Path | None, context: str, in_force: ConfigurationInForce) -> None:
    log = logger(__name__)
    cluster = await load_rest_config(kubeconfig, context)
    connect = election_client(kubeconfig, context)  # its credentials belong to another event loop
    async with run_controller_process(cluster, WallClock(), random.Random(), in_force, connect):
        await wait_for_signal(lambda: log.info("starting", server=cluster.server))
        log.info("stopping")
