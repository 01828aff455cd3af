"""Choose devices for the claims of one pod on one node.

The first devices that satisfy all requests together are taken, in the order of the inventory, as
kube-scheduler does; alternatives of a request in their order.  The search ends after a number of steps,
because constraints between many requests have many combinations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from quorate.api.core import Toleration
from quorate.api.core.device_claims import DeviceClass, ResourceClaim
from quorate.api.quantity import Quantity
from quorate.placement.claim_requirements import ClaimDemand, CounterId, DeviceId, Wanted
from quorate.placement.filters.devices.inventory import PublishedDevice, Usable, share_of
from quorate.placement.filters.devices.pools import MAX_DEVICES
from quorate.placement.filters.devices.quantities import milli_of
from quorate.placement.filters.devices.selectors import SelectorProblem
from quorate.placement.filters.node_affinity import NAME_FIELD
from quorate.placement.filters.taints import first_untolerated

MAX_STEPS: Final = 10_000


class ChosenDevice(NamedTuple):
    request: str
    id: DeviceId
    admin_access: bool
    tolerations: tuple[Toleration, ...]
    usable: Usable
    device_class: str
    shares: Mapping[str, Quantity] | None = None  # of a device that several claims share: taken capacities


Chosen = tuple[tuple[ChosenDevice, ...], ...]  # by claim, in the order of the demand


class DeviceShortage(NamedTuple):
    """Why no devices can be chosen; ``request`` is the first one without enough, or empty."""

    request: str
    device_class: str
    needed: int  # 0: all that match, of which some are in use, or none exist
    free: int
    matching: int
    problem: str = ""  # an expression that fails, or what else keeps the requests from being met

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        needed = self.needed or "all"
        return (
            f"request {self.request} needs {needed} of class {self.device_class}, "
            f"{self.free} of {self.matching} that match {'is' if self.free == 1 else 'are'} free"
        )


def choose_devices(
    claims: Sequence[ClaimDemand],
    devices: Sequence[PublishedDevice],
    is_free: Callable[[PublishedDevice], bool],
    counters: Mapping[CounterId, int],
) -> Chosen | DeviceShortage:
    """Return the devices that all ``claims`` of a pod get, or why ``devices`` do not satisfy the claims.

    ``counters``: the rest of each counter that devices share, in thousandths.
    """
    search = _Search(claims, devices, is_free, counters)
    if shortage := search.shortage():
        return shortage
    return search.run()


class _Search:
    def __init__(
        self,
        claims: Sequence[ClaimDemand],
        devices: Sequence[PublishedDevice],
        is_free: Callable[[PublishedDevice], bool],
        counters: Mapping[CounterId, int],
    ) -> None:
        self._claims = claims
        self._requests = [(at, request) for at, claim in enumerate(claims) for request in claim.requests]
        self._devices = devices
        self._is_unused = is_free
        self._counters_left = dict(counters)
        self._matching: dict[Wanted, list[PublishedDevice]] = {}
        self._shares: dict[
            tuple[Wanted, PublishedDevice], Mapping[str, Quantity]
        ] = {}  # of shareable devices
        self._consumed: dict[tuple[Wanted, PublishedDevice], tuple[tuple[CounterId, int], ...]] = {}
        self._taken: list[tuple[int, Wanted, PublishedDevice]] = []  # with the claim
        self._taken_ids: set[DeviceId] = set()
        self._steps = 0

    def shortage(self) -> DeviceShortage | None:
        """Return the first request that has too few devices, whichever devices the other requests get."""
        for _, alternatives in self._requests:
            shortages = [self._shortage_of(wanted) for wanted in alternatives]
            if all(shortages):
                return shortages[0]
        return None

    def _shortage_of(self, wanted: Wanted) -> DeviceShortage | None:
        matching: list[PublishedDevice] = []
        for published in self._devices:
            selected = published.is_selected(wanted.expressions)
            if isinstance(selected, SelectorProblem):
                device = "/".join(published.id)
                problem = f"request {wanted.request}: a selector failed for {device}: {selected.message}"
                return DeviceShortage(wanted.request, wanted.device_class, wanted.count, 0, 0, problem)
            is_tolerated = first_untolerated(published.device.taints, wanted.tolerations) is None
            if selected and is_tolerated and published.has_capacity(wanted.capacity):
                shares = published.shares(wanted.capacity) if published.is_shareable else {}
                if shares is not None:
                    taken = (
                        (share_of(published.id, name), milli_of(share)) for name, share in shares.items()
                    )
                    self._consumed[wanted, published] = (*published.consumes, *taken)
                    if published.is_shareable:
                        self._shares[wanted, published] = shares
                    matching.append(published)
        self._matching[wanted] = matching
        free = sum(wanted.admin_access or self._is_free(published, wanted) for published in matching)
        enough = 0 < free == len(matching) if wanted.count == 0 else free >= wanted.count
        if enough and (wanted.count or free) <= MAX_DEVICES:
            return None
        return DeviceShortage(wanted.request, wanted.device_class, wanted.count, free, len(matching))

    def run(self) -> Chosen | DeviceShortage:
        if self._request(0):
            return tuple(tuple(self._chosen(at)) for at in range(len(self._claims)))
        problem = "its requests cannot be met together"
        if self._steps >= MAX_STEPS:
            problem += f" (not within {MAX_STEPS} attempts)"
        return DeviceShortage("", "", 0, 0, 0, problem)

    def _chosen(self, claim: int) -> Iterator[ChosenDevice]:
        for at, wanted, published in self._taken:
            if at == claim:
                yield ChosenDevice(
                    wanted.request, published.id, wanted.admin_access, wanted.tolerations, published.usable,
                    wanted.device_class, self._shares.get((wanted, published)),
                )  # fmt: skip

    def _request(self, at: int) -> bool:
        """Choose for the request at this position and all later ones."""
        if at == len(self._requests):
            return True
        claim, alternatives = self._requests[at]
        for wanted in alternatives:
            matching = self._matching.get(wanted, [])
            candidates = [published for published in matching if self._is_available(published, wanted)]
            count = wanted.count or len(matching)
            if 0 < count <= len(candidates) and self._choose(at, claim, wanted, candidates, 0, count):
                return True
        return False

    def _choose(
        self, at: int, claim: int, wanted: Wanted, candidates: list[PublishedDevice], first: int, count: int
    ) -> bool:
        """Take ``count`` of the candidates from ``first`` on, and go on with the next request."""
        if count == 0:
            return self._request(at + 1)
        for position in range(first, len(candidates) - count + 1):
            self._steps += 1
            if self._steps >= MAX_STEPS:
                return False
            published = candidates[position]
            if not (wanted.admin_access or self._has_counters(published, wanted)):
                continue
            if not self._is_consistent(claim, wanted, published):
                continue
            self._taken.append((claim, wanted, published))
            if not wanted.admin_access:
                if not published.is_shareable:
                    self._taken_ids.add(published.id)
                self._consume(published, wanted, 1)
            if self._choose(at, claim, wanted, candidates, position + 1, count - 1):
                return True
            self._taken.pop()
            if not wanted.admin_access:
                self._taken_ids.discard(published.id)
                self._consume(published, wanted, -1)
        return False

    def _consume(self, published: PublishedDevice, wanted: Wanted, times: int) -> None:
        for counter, amount in self._consumed[wanted, published]:
            self._counters_left[counter] -= times * amount

    def _has_counters(self, published: PublishedDevice, wanted: Wanted) -> bool:
        consumed = self._consumed[wanted, published]
        return all(amount <= self._counters_left[counter] for counter, amount in consumed)

    def _is_free(self, published: PublishedDevice, wanted: Wanted) -> bool:
        """Return whether enough is left of the device, and of the counters that it shares."""
        return self._has_counters(published, wanted) and self._is_unused(published)

    def _is_available(self, published: PublishedDevice, wanted: Wanted) -> bool:
        return wanted.admin_access or (
            published.id not in self._taken_ids and self._is_free(published, wanted)
        )

    def _is_consistent(self, claim: int, wanted: Wanted, published: PublishedDevice) -> bool:
        """Return True if the device agrees with the devices taken in each attribute that must be equal."""
        for same in self._claims[claim].same:
            if not same.concerns(wanted.request):
                continue
            value = published.attribute(same.attribute)
            if value is None:
                return False
            for at, other, taken in self._taken:
                if at == claim and same.concerns(other.request):
                    if taken.attribute(same.attribute) != value:
                        return False
                    break
        return True


@dataclass(frozen=True, slots=True)
class DeviceAllocationStep:
    """A claim without devices, and the devices that were chosen for it.

    Source: kube-scheduler's plugin DynamicResources (PreBind) and resource.k8s.io/v1.
    """

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
