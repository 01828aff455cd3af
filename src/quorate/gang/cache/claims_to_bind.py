"""What must be written about the claims of a pod, for volumes and devices, before it is bound to a node."""

from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.placement.filters.devices.allocation import DeviceAllocationStep, DeviceShortage
from quorate.placement.filters.devices.demand import unallocated_claims
from quorate.placement.filters.volumes.binding import VolumeBinding, volume_bindings


def volumes_to_bind(model: Model, key: Key, node: str) -> tuple[VolumeBinding, ...]:
    """Return the writes to claims and volumes that must precede the bind of a pod to ``node``."""
    pod, index = model.pod(key), model.cluster.index(node)
    node_object = None if index is None else model.cluster.nodes[index]
    # Nothing for a pod or node that is gone by now: the bind itself will fail.
    if pod is None or node_object is None:
        return ()
    return volume_bindings(pod, node_object, model.storage)


def claims_devices(model: Model, key: Key) -> bool:
    """Return whether devices are to be allocated for the pod, or were."""
    pod = model.pod(key)
    return pod is not None and bool(pod.spec.resource_claims) and model.constraints.evaluates_devices


def devices_to_allocate(
    model: Model, key: Key, node: str
) -> tuple[DeviceAllocationStep, ...] | DeviceShortage:
    """Return the devices that the claims of a pod get before it is bound to ``node``.

    The shortage is that of devices which were lost since the pod was placed.
    """
    pod, shape = model.pod(key), model.shape_of(key)
    if pod is None or shape is None or not claims_devices(model, key):
        return ()
    chosen = model.constraints.chosen_devices(node, shape)
    if isinstance(chosen, DeviceShortage):
        return chosen
    claims = unallocated_claims(pod, model.devices.claims)
    return tuple(DeviceAllocationStep(claim, devices) for claim, devices in zip(claims, chosen, strict=True))
