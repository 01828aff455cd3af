"""What is written to a claim when devices are chosen for it, before its pod is bound.

Source: kube-scheduler's plugin DynamicResources (PreBind) and resource.k8s.io/v1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from quorate.api.core.device_claims import DeviceClass, ResourceClaim
from quorate.placement.filters.devices.allocation import ChosenDevice
from quorate.placement.filters.node_affinity import NAME_FIELD


@dataclass(frozen=True, slots=True)
class DeviceAllocationStep:
    """A claim without devices, and the devices that were chosen for it."""

    claim: ResourceClaim
    chosen: tuple[ChosenDevice, ...]

    def allocation(self, classes: Mapping[str, DeviceClass], node: str) -> dict[str, Any]:
        """Return ``status.allocation`` of the claim; ``node``: the node of the first pod with the claim."""
        results = [_result(device) | self._share(at, device) for at, device in enumerate(self.chosen)]
        allocation: dict[str, Any] = {"devices": {"results": results}}
        if config := [*self._config(classes)]:
            allocation["devices"]["config"] = config
        if self.chosen and (selector := _node_selector(self.chosen, node)):
            allocation["nodeSelector"] = selector
        return allocation

    def _share(self, position: int, device: ChosenDevice) -> dict[str, Any]:
        """Return the identity of a share of a device, with the capacity that the share takes."""
        if device.shares is None or device.admin_access:
            return {}
        name = f"{self.claim.metadata.uid}/{position}/{'/'.join(device.id)}"
        taken = {capacity: str(amount) for capacity, amount in device.shares.items()}
        return {"shareID": str(uuid5(NAMESPACE_OID, name)), "consumedCapacity": taken}

    def _config(self, classes: Mapping[str, DeviceClass]) -> Iterator[dict[str, Any]]:
        requests: dict[str, list[str]] = {}  # by class
        for device in self.chosen:
            of_class = requests.setdefault(device.device_class, [])
            if device.request not in of_class:
                of_class.append(device.request)
        for name, of_class in requests.items():
            device_class = classes.get(name)
            for raw in () if device_class is None else device_class.spec.config:
                yield {**msgspec.json.decode(raw), "source": "FromClass", "requests": of_class}
        chosen = {
            name for device in self.chosen for name in (device.request, device.request.partition("/")[0])
        }
        for raw in self.claim.spec.devices.config:
            config = msgspec.json.decode(raw)
            named = config.get("requests") or ()
            if not named or not chosen.isdisjoint(named):
                yield {**config, "source": "FromClaim"}


def _result(chosen: ChosenDevice) -> dict[str, Any]:
    driver, pool, device = chosen.id
    result: dict[str, Any] = {"request": chosen.request, "driver": driver, "pool": pool, "device": device}
    if chosen.admin_access:
        result["adminAccess"] = True
    if chosen.tolerations:
        result["tolerations"] = msgspec.to_builtins(chosen.tolerations)
    return result


def _node_selector(chosen: Iterable[ChosenDevice], node: str) -> dict[str, Any] | None:
    """Return where all of the devices can be used; None: everywhere."""
    places = {device.usable for device in chosen}
    if len(places) == 1:
        (place,) = places
        if not place.node:
            return None if place.selector is None else msgspec.to_builtins(place.selector)
    requirement = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [requirement]}]}
