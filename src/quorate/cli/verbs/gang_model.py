"""The gang core's model of a whole cluster, made from lists, to be asked and thrown away."""

import asyncio

from quorate.gang.model import Model
from quorate.kube.client import Client
from quorate.kube.resources import (
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    PRIORITY_CLASSES,
    QUEUES,
    RESOURCE_QUOTAS,
)
from quorate.scheduler.scheduler import NAMES


async def gang_model_of(client: Client) -> Model:
    """The model as a scheduler would have it that starts now, without volumes, which admit nobody."""
    nodes, pods, groups, queues, quotas, classes = await asyncio.gather(
        client.list(PLACEABLE_NODES),
        client.list(PLACEABLE_PODS),
        client.list(POD_GROUPS),
        client.list(QUEUES),
        client.list(RESOURCE_QUOTAS),
        client.list(PRIORITY_CLASSES),
    )
    model = Model(NAMES)
    for cls in classes.items:
        model.set_priority_class(cls)
    for queue in queues.items:
        model.set_queue(queue)
    for quota in quotas.items:
        model.set_quota(quota)
    for node in nodes.items:
        model.set_node(node)
    for group in groups.items:
        model.set_group(group)
    for pod in pods.items:
        model.set_pod(pod)
    return model
