"""The dashboard beside a cluster of ``quorate local up``, on loopback."""

import asyncio
import random
from pathlib import Path

import typer

from quorate.api.configuration.process import Address
from quorate.dashboard.process import Options, run_dashboard
from quorate.dashboard.simulation.simulation_process import Cluster
from quorate.inspect.cluster_model import effective_configuration
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import load_anonymous_config
from quorate.local.directory import HISTORY


async def serve_local_dashboard(client: Client, kubeconfig: Path, config: Path | None, port: int) -> None:
    """Serve the dashboard of the cluster of ``kubeconfig`` until cancelled; print links that log in once."""
    options = Options(
        address=Address("127.0.0.1", port),
        cluster=Cluster(kubeconfig=str(kubeconfig), config="" if config is None else str(config)),
        has_links=True,
        history=kubeconfig.with_name(HISTORY),
    )
    effective = await effective_configuration(client, config)
    async with run_dashboard(
        client,
        load_anonymous_config(kubeconfig),
        effective.configuration,
        options,
        WallClock(),
        random.Random(),
        lambda link: typer.echo(f"# dashboard: open {link} (the link logs in once)"),
    ):
        await asyncio.Event().wait()
