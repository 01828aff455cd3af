"""What a manager cluster stores about its worker clusters on this machine.

A Secret with a kubeconfig and a MultiKueueCluster of each worker, a MultiKueueConfig that lists them, and
an AdmissionCheck with it.  The kubeconfig has the token of an account with the least role in the worker.  A
manager or worker that is new gets the queues of the example ``multikueue``.
"""

import asyncio
import base64
import random
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

import yaml

from quorate.api.kueue import GROUP
from quorate.api.kueue.multikueue import KUBECONFIG_KEY
from quorate.api.meta import Key
from quorate.api.names.multikueue import CONTROLLER
from quorate.install.manifest_builders import namespace_object
from quorate.install.multikueue_worker import ACCOUNT, account, manager_kubeconfig
from quorate.kube.client import Client
from quorate.kube.resources import ADMISSION_CHECKS, MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS, Resource
from quorate.kube.rest.config import load_rest_config
from quorate.local.controllers.access import request_token
from quorate.processes.local.apply import apply_manifests, create_manifests
from quorate.processes.local.manifests import read_manifest_text, read_manifests
from quorate.processes.local.queueing_cluster import NAMESPACES
from quorate.webhooks.serving_certificate import SECRETS

CHECK: Final = "multikueue"
CONFIG: Final = "workers"

_TOKEN_LIFETIME_S: Final = 10 * 365 * 86_400  # each start makes another


async def connect_workers(manager: Client, namespace: str, kubeconfigs: Mapping[str, Path]) -> None:
    """Store how the controllers of ``manager`` reach each worker, by the kubeconfigs of the workers by name.

    ``namespace`` is the namespace of the controllers.  Raises ``InvalidFiles`` if a new cluster has one of
    the queues.
    """
    await manager.apply(NAMESPACES, Key("", namespace), {})
    await asyncio.gather(
        *(_connect_worker(manager, namespace, name, path) for name, path in kubeconfigs.items())
    )
    await manager.apply(MULTIKUEUE_CONFIGS, Key("", CONFIG), {"spec": {"clusters": [*kubeconfigs]}})
    is_new = not await _exists(manager, ADMISSION_CHECKS, CHECK)
    parameters = {"apiGroup": GROUP, "kind": MULTIKUEUE_CONFIGS.kind, "name": CONFIG}
    check = {"spec": {"controllerName": CONTROLLER, "parameters": parameters}}
    await manager.apply(ADMISSION_CHECKS, Key("", CHECK), check)
    if is_new:
        await _create_queues(manager, "manager-queues.yaml")


async def _connect_worker(manager: Client, namespace: str, name: str, kubeconfig: Path) -> None:
    async with Client(await load_rest_config(kubeconfig), random.Random()) as worker:
        if not await _exists(manager, MULTIKUEUE_CLUSTERS, name):
            await _create_queues(worker, "worker-queues.yaml")
        token = await _account_token(worker, namespace)
        own = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
        authority = own["clusters"][0]["cluster"]["certificate-authority-data"]
        document = yaml.safe_dump(manager_kubeconfig(worker.config.server, token, authority))
    data = {KUBECONFIG_KEY: base64.b64encode(document.encode()).decode()}
    await manager.apply(SECRETS, Key(namespace, name), {"type": "Opaque", "data": data})
    source = {"kubeConfig": {"locationType": "Secret", "location": name}}
    await manager.apply(MULTIKUEUE_CLUSTERS, Key("", name), {"spec": {"clusterSource": source}})


async def _account_token(worker: Client, namespace: str) -> str:
    """Return a token of the account with which the manager works in a worker cluster."""
    manifests = yaml.safe_dump_all([namespace_object(namespace), *account(namespace)])
    await apply_manifests(worker, read_manifest_text(manifests, "account of the manager"), namespace)
    spec = {"expirationSeconds": _TOKEN_LIFETIME_S}
    return await request_token(worker, Key(namespace, ACCOUNT), spec)


async def _create_queues(client: Client, file: str) -> None:
    with as_file(files("quorate") / "examples" / "multikueue" / file) as path:
        await create_manifests(client, read_manifests(path))


async def _exists(manager: Client, resource: Resource[Any], name: str) -> bool:
    return await manager.find(resource, Key("", name)) is not None
