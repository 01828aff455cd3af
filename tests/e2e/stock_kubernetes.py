"""The control plane of Kubernetes with its own pod groups: server, scheduler and controllers."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.api.native_groups import BETA, VERSION, VERSIONS, PodGroup, Workload
from quorate.install.controllers import native_gangs
from quorate.kube.client import Client
from quorate.kube.discovery import served_version
from quorate.kube.resources import NATIVE_POD_GROUPS, NATIVE_WORKLOADS, Json, Resource, untyped
from tests.e2e import world
from tests.e2e.real_server import (
    CONTROLLERS,
    FIRST_WITH_GROUPS,
    PROGRAMS,
    SCHEDULER,
    assets,
    control_plane,
    kill_and_restart,
    kube_controller_manager,
    kube_scheduler,
    minor_version,
    native_gates,
    native_options,
    unavailable_reason,
)
from tests.e2e.world import NAMESPACE, World


def run_stock_kubernetes(
    config: pytest.Config, monkeypatch: pytest.MonkeyPatch, *, with_controllers: bool
) -> int:
    """Let stories run on the programs of Kubernetes; return its minor version.

    Skip the test without these programs.
    """
    programs = (*PROGRAMS, SCHEDULER, CONTROLLERS) if with_controllers else (*PROGRAMS, SCHEDULER)
    if not config.getoption("--real", default=False):
        pytest.skip("needs --real")
    if problem := unavailable_reason(programs):
        pytest.skip(problem)
    folder = assets()
    minor = minor_version(folder)
    if minor < FIRST_WITH_GROUPS:
        pytest.skip(f"Kubernetes 1.{minor} has no pod groups")
    gates = native_gates(minor)
    monkeypatch.setattr(world, "SERVER", lambda: control_plane(folder, *native_options(minor)))
    monkeypatch.setattr(world, "SCHEDULER", lambda cluster: kube_scheduler(folder, cluster, gates))
    if with_controllers:
        run = lambda cluster: kube_controller_manager(folder, cluster, gates)  # noqa: E731
        monkeypatch.setattr(world, "CONTROLLERS", run)
    return minor


async def restart_all(story: World, configuration: Any) -> None:
    """Kill every process of the control plane, and ours, and start them again."""
    await story.stop_queueing()
    for name in ("kube-apiserver", SCHEDULER, CONTROLLERS):
        await kill_and_restart(name)
    await story.start_queueing(configuration)


async def install_policy(client: Client) -> None:
    """Install what ``gangs: native`` needs."""
    for manifest in native_gangs("kueue-system"):
        group, _, version = manifest["apiVersion"].partition("/")
        kind = manifest["kind"]
        plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
        await client.create(untyped(group, version, plural, kind, False), manifest)


async def native_kind(client: Client) -> Resource[PodGroup]:
    """Return the pod groups in the version of the server."""
    kind = await served_version(client, NATIVE_POD_GROUPS, VERSIONS)
    assert kind is not None, "the server has pod groups"
    return kind


async def native_groups(client: Client) -> tuple[PodGroup, ...]:
    return (await client.list(await native_kind(client), NAMESPACE)).items


async def create_group(client: Client, name: str, policy: Json, template: str = "", **spec: Any) -> None:
    """Create a pod group; ``template``: that of the native workload ``train`` of which it is made."""
    kind = await native_kind(client)
    references: dict[str, Json] = {
        VERSION: {
            "podGroupTemplateRef": {"workload": {"workloadName": "train", "podGroupTemplateName": template}}
        },
        BETA: {"workloadRef": {"workloadName": "train", "templateName": template}},
    }
    reference = references[kind.version] if template else {}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **reference, **spec}}
    await client.create(kind, body, NAMESPACE)


async def workload_kind(client: Client) -> Resource[Workload]:
    """Return the native workloads in the version of the server."""
    return replace(NATIVE_WORKLOADS, version=(await native_kind(client)).version)
