"""Queue positions read from the API server as kueuectl does, served by the installed account."""

import asyncio
import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quorate.api import codec, explanation
from quorate.api.configuration import DEFAULT_NAMESPACE, default_configuration
from quorate.api.configuration.process import Address
from quorate.api.configuration.webhooks import TlsOptions
from quorate.api.kueue import visibility as api
from quorate.controllers.process import run_queueing
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_reader import ClusterReader
from quorate.install.controllers import VISIBILITY_SERVICE
from quorate.install.visibility import api_services, auth_reader
from quorate.kube.clock import WallClock
from quorate.kube.errors import ApiError
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import untyped
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.explanations import Explainer
from quorate.observe.replica import Replica
from quorate.observe.serving import HttpsEndpoints
from quorate.observe.visibility import visibility, visibility_access
from tests.e2e import shared_clusters
from tests.e2e.test_rights import as_controller_account
from tests.e2e.verbs import CommandLine
from tests.e2e.world import World, running_cluster
from tests.observe.listening import free_port

pytestmark = pytest.mark.slow

SERVICES = untyped("", "v1", "services", "Service", True)
ROLE_BINDINGS = untyped("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
API_SERVICES = untyped("apiregistration.k8s.io", "v1", "apiservices", "APIService", False)


async def install(world: World, port: int) -> None:
    """Install the visibility API of ``deploy/`` with a service that is ``port`` of this machine.

    A kube-apiserver stores no endpoints on loopback.
    """
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await world.client.create(
        SERVICES, {"metadata": {"name": VISIBILITY_SERVICE}, "spec": spec}, DEFAULT_NAMESPACE
    )
    await world.client.create(ROLE_BINDINGS, auth_reader(DEFAULT_NAMESPACE))
    for service in api_services(DEFAULT_NAMESPACE):
        service["spec"]["service"]["port"] = port
        await world.client.create(API_SERVICES, service)


def test_pending_workloads_are_listed_with_their_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    async def story() -> None:
        async with running_cluster() as world, as_controller_account(world) as client:
            command = CommandLine(world, tmp_path, monkeypatch)
            clock, replica, rng = WallClock(), Replica("standalone"), random.Random(1)
            configuration, port = default_configuration(), free_port()
            endpoints = HttpsEndpoints(DelegatedAuth(client, clock), TlsOptions())
            explainer = Explainer(replica, ClusterReader(client), endpoints.auth, why_not_queued, clock)
            await install(world, port)
            served = endpoints.serving(
                "visibilityServer",
                Address("0.0.0.0", port),
                visibility(replica, explainer),
                visibility_access,
                aggregated=True,
            )
            queueing = run_queueing(client, clock, DynamicConfiguration(configuration), rng, replica)
            controllers = asyncio.create_task(queueing)
            try:
                async with served:
                    await world.queues(cpu="1")
                    for job in ("a", "b", "c"):
                        await world.job(job)
                        await world.until(f"{job} is queued", partial(world.workload, job))
                    await world.until_admitted("a")
                    await world.until("the API responds", lambda: responds(world))
                    listed = await command("workload", "list", "--status", "pending")
                    assert listed.err == ""
                    rows = [line.split() for line in listed.out.splitlines()[1:]]
                    assert sorted(row[6] for row in rows) == ["0", "1"]
                    await world.until("explanations are served", partial(is_explained, command))
                    found = json.loads(await command.output_of("explain", "job/a", "-o", "json"))
                    assert found["state"] == "Admitted"
                    assert found["pods"]["running"] == 0
                    group = f"/apis/{explanation.API_VERSION}"
                    kinds = codec.decode(dict[str, Any], await world.client.request("GET", group))
                    assert "workloads/explanation" in {each["name"] for each in kinds["resources"]}
                    if request.config.getoption("--real"):  # the local cluster merges no schemas
                        await world.until("the schema is merged", partial(has_schema, world))
            finally:
                controllers.cancel()
                await asyncio.gather(controllers, return_exceptions=True)
            assert client.forbidden == []

    shared_clusters.run(story())


async def has_schema(world: World) -> bool:
    """Return True if the API server has read the schema, as its own user without groups."""
    index = codec.decode(dict[str, Any], await world.client.request("GET", "/openapi/v3"))
    return f"apis/{explanation.API_VERSION}" in index["paths"]


async def is_explained(command: CommandLine) -> bool:
    done = await command("explain", "job/b")
    return done.err == "explained by the controllers\n" and "Queued" in done.out


async def responds(world: World) -> bool:
    path = f"/apis/{api.GROUP}/{api.VERSION}/clusterqueues/research/pendingworkloads"
    try:
        await world.client.request("GET", path)
    except ApiError:
        return False
    return True
