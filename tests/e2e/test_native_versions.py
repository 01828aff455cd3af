"""Pod groups of Kubernetes 1.37 (``v1beta1``), in a server that has them in this version only."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.api.native_groups import BETA, GENERIC_WORKLOAD
from quorate.controllers.native_groups import NativeGroups
from quorate.gang.cache.native_groups import native_key
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import NATIVE_POD_GROUPS, NATIVE_WORKLOADS, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.processes.local.apply import install_definitions
from quorate.scheduler.feeds import load_model
from quorate.webhooks.cluster_reader import CachedClusterReader
from tests.e2e import world
from tests.e2e.minimal_definitions import definition
from tests.e2e.verbs import CommandLine
from tests.e2e.world import NAMESPACE, World, run_story
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

GROUPS = replace(NATIVE_POD_GROUPS, version=BETA)
WORKLOADS = replace(NATIVE_WORKLOADS, version=BETA)
KEY = Key(NAMESPACE, "ring")


@asynccontextmanager
async def server_of_1_37() -> AsyncIterator[RestConfig]:
    async with api_server(disabled_gates=(GENERIC_WORKLOAD,)) as server:
        yield RestConfig(server.url, credentials=Token(server.token))


async def create_group(story: World) -> None:
    await install_definitions(story.client, [definition(GROUPS), definition(WORKLOADS)])
    labels = {"kueue.x-k8s.io/queue-name": "night"}
    workload = {"metadata": {"name": "train", "labels": labels}, "spec": {"podGroupTemplates": []}}
    await story.client.create(untyped(*_of(WORKLOADS)), workload, NAMESPACE)
    spec: dict[str, Any] = {
        "workloadRef": {"workloadName": "train", "templateName": "workers"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"all": {}},
    }
    await story.client.create(untyped(*_of(GROUPS)), {"metadata": {"name": "ring"}, "spec": spec}, NAMESPACE)


def _of(resource: Any) -> tuple[str, str, str, str, bool]:
    return resource.group, resource.version, resource.plural, resource.kind, True


def test_groups_are_read_in_the_version_that_the_server_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world, "SERVER", server_of_1_37)

    async def story(story: World) -> None:
        await create_group(story)
        config = story.client.config
        async with Client(config, random.Random(1)) as client:
            native = NativeGroups(client, WallClock())
            watching = asyncio.create_task(native.run())
            try:
                group = await story.until("the group is known", lambda: _known(native))
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
            assert (group.spec.workload_name, group.spec.template_name) == ("train", "workers")
            assert native.groups_of(Key(NAMESPACE, "train")) == [group]
            reader = CachedClusterReader(client, Configuration(), ())
            assert await reader.native_queue(KEY) == "night"
            model = await load_model(client, WallClock(), ("quorate",))
            spec = model.gangs[native_key(KEY)].native
            assert spec is not None
            assert spec.is_disrupted_as_a_whole
        command = CommandLine(story, tmp_path, monkeypatch)
        assert "scheduling.k8s.io/ring" in await command.output_of("podgroup", "list", "-n", NAMESPACE)

    run_story(story)


async def _known(native: NativeGroups) -> Any:
    return native.get(KEY) if native.are_known else None
