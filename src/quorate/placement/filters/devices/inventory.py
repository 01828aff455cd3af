"""The devices of each node, as drivers publish them in resource slices.

Devices that wait for conditions after their allocation do not count: what is left of them is not known here.
Devices that share counters count if their pool publishes the counters.  The capacities of a device that
several claims may share are counters of its own.

Source: resource.k8s.io/v1 and kube-scheduler's plugin DynamicResources (KEP-4381).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from quorate.api.core import NodeSelector
from quorate.api.core.device_claims import Device, ResourceSlice, ResourceSliceSpec
from quorate.api.quantity import Quantity
from quorate.placement.claim_requirements import CounterId, DeviceId
from quorate.placement.filters.devices.pools import Pool, ResourcePools
from quorate.placement.filters.devices.quantities import capacity_charge, milli_of
from quorate.placement.filters.devices.selectors import SelectorProblem, attribute_of, capacity_of, compiled
from quorate.placement.filters.node_affinity import matching_nodes
from quorate.placement.filters.node_columns import NodeColumns


class PublishedDevice:
    """One device of a pool; compared by identity, and replaced when its slice changes."""

    __slots__ = ("_selected", "consumes", "device", "id", "is_shareable", "usable")

    def __init__(self, id: DeviceId, device: Device, usable: "Usable") -> None:
        self.id, self.device, self.usable = id, device, usable
        self.consumes = tuple(_consumption(id, device))  # of shared counters, in thousandths
        self.is_shareable = device.allow_multiple_allocations  # by several claims
        self._selected: dict[str, bool | SelectorProblem] = {}

    def is_selected(self, expressions: Iterable[str]) -> bool | SelectorProblem:
        """Return whether all ``expressions`` select the device, or why one of them cannot be evaluated."""
        for text in expressions:
            selected = self._selected.get(text)
            if selected is None:
                selector = compiled(text)
                selected = self._selected[text] = (
                    selector if isinstance(selector, SelectorProblem)
                    else selector.matches(self.id.driver, self.device)
                )  # fmt: skip
            if selected is not True:
                return selected
        return True

    @property
    def is_local(self) -> bool:
        """Whether only one node can use it."""
        return bool(self.usable.node)

    def shares(self, wanted: Iterable[tuple[str, int]]) -> dict[str, Quantity] | None:
        """Return what a claim takes of each capacity of a shareable device; None if it cannot have that."""
        requested = {self._plain_name(name): Quantity.of_milli(amount) for name, amount in wanted}
        taken: dict[str, Quantity] = {}
        for name, capacity in sorted(self.device.capacity.items()):
            amount = capacity_charge(capacity, requested.get(self._plain_name(name)))
            if amount is None:
                return None
            taken[name] = Quantity(amount.nanos, capacity.value.form)
        return taken

    def _plain_name(self, name: str) -> str:
        return name.removeprefix(f"{self.id.driver}/")

    def has_capacity(self, wanted: Iterable[tuple[str, int]]) -> bool:
        return all(amount <= capacity_of(self.id.driver, self.device, name) for name, amount in wanted)

    def attribute(self, name: str) -> object:
        return attribute_of(self.id.driver, self.device, name)


class Usable(NamedTuple):
    """Where devices can be used: on one node, on nodes that match a selector, or on all nodes."""

    node: str = ""
    selector: NodeSelector | None = None


_NO_DEVICES: Final[tuple[PublishedDevice, ...]] = ()


class DeviceInventory:
    """The devices that resource slices publish, by node.  Every change increments ``version``."""

    def __init__(self) -> None:
        self.version = 0
        self._pools = ResourcePools()
        self._of_pool: dict[Pool, list[PublishedDevice]] = {}  # those that are computed
        self._counters: dict[Pool, dict[CounterId, int]] = {}  # of these pools, in thousandths
        self._by_place: dict[Usable, list[PublishedDevice]] | None = {}  # None: to be computed
        self._has_shared = False
        self._seen: tuple[int, int] | None = None  # versions of slices and nodes of ``_visible``
        self._visible: list[tuple[PublishedDevice, ...]] = []

    def set_slice(self, piece: ResourceSlice) -> None:
        self._changed(self._pools.set_slice(piece))

    def remove_slice(self, name: str) -> None:
        self._changed(self._pools.remove_slice(name))

    def _changed(self, pools: tuple[Pool, ...]) -> None:
        for pool in pools:
            self.version += 1
            self._of_pool.pop(pool, None)
            self._by_place = None

    def visible(self, nodes: NodeColumns) -> Sequence[tuple[PublishedDevice, ...]]:
        """Return the devices that each node can use, by node index, ordered by driver, pool and slice."""
        seen = (self.version, nodes.generation)
        if seen != self._seen:
            self._seen = seen
            self._visible = list(self._divided(nodes))
        return self._visible

    def _divided(self, nodes: NodeColumns) -> Iterator[tuple[PublishedDevice, ...]]:
        places = self._places()
        local = {place.node: devices for place, devices in places.items() if place.node}
        shared = [
            (matching_nodes(nodes, (), place.selector), devices)
            for place, devices in places.items()
            if not place.node
        ]
        values = nodes.names.values
        for index, code in enumerate(nodes.names.codes.tolist()):
            own = local.get(values[code], ()) if code >= 0 else ()
            others = [published for mask, devices in shared if mask[index] for published in devices]
            yield (*own, *others) if own or others else _NO_DEVICES

    @property
    def has_shared(self) -> bool:
        """Whether any device can be used by several nodes, or shares counters with one of another node."""
        self._places()
        return self._has_shared

    def _places(self) -> Mapping[Usable, Sequence[PublishedDevice]]:
        if self._by_place is None:
            self._by_place = {}
            for pool in self._pools:
                for published in self._devices_of(pool):
                    self._by_place.setdefault(published.usable, []).append(published)
            self._has_shared = any(not place.node for place in self._by_place) or any(
                map(self.spans_nodes, self._of_pool)
            )
        return self._by_place

    def _devices_of(self, pool: Pool) -> Sequence[PublishedDevice]:
        if pool not in self._of_pool:
            counters = self._counters[pool] = self._pools.counters(pool)
            usable = _usable_devices(pool, self._pools.devices(pool))
            self._of_pool[pool] = [published for published in usable if _has_counters(published, counters)]
        return self._of_pool[pool]

    def reading_steps(self, devices: int) -> Iterator[None]:
        """Read the pools that have changed, in each step some with ``devices`` devices at least."""
        read = 0
        for pool in list(self._pools):
            if pool not in self._of_pool and pool in self._pools:
                read += len(self._devices_of(pool))
                if read >= devices:
                    read = 0
                    yield

    def counters_left(
        self, devices: Iterable[PublishedDevice], is_free: Callable[[PublishedDevice], bool]
    ) -> dict[CounterId, int]:
        """Return the rest of each counter that ``devices`` share, in thousandths."""
        left: dict[CounterId, int] = {}
        for published in devices:
            if published.is_shareable:
                for name, capacity in published.device.capacity.items():
                    left[share_of(published.id, name)] = milli_of(capacity.value)
        for pool in {Pool(*published.id[:2]) for published in devices if published.consumes}:
            left |= self._counters[pool]
            for published in self._of_pool[pool]:
                if published.consumes and not is_free(published):
                    for counter, amount in published.consumes:
                        left[counter] -= amount
        return left

    def spans_nodes(self, pool: Pool) -> bool:
        """Return True if devices of several nodes share counters."""
        return len({published.usable for published in self._of_pool[pool] if published.consumes}) > 1


def share_of(id: DeviceId, capacity: str) -> CounterId:
    """Return the counter for a capacity of a shareable device; no counter set has a name with a slash."""
    return CounterId(id.driver, id.pool, f"{id.device}/", capacity)


def _consumption(id: DeviceId, device: Device) -> Iterator[tuple[CounterId, int]]:
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield CounterId(id.driver, id.pool, consumption.counter_set, name), milli_of(counter.value)


def _has_counters(published: PublishedDevice, counters: Mapping[CounterId, int]) -> bool:
    return all(counter in counters for counter, _ in published.consumes)


def _usable_devices(
    pool: Pool, devices: Iterable[tuple[ResourceSliceSpec, Device]]
) -> Iterator[PublishedDevice]:
    """Yield the devices of one pool that count and can be used somewhere."""
    for piece, device in devices:
        if device.binding_conditions:
            continue
        place = _place(piece, device)
        if place is not None:
            yield PublishedDevice(DeviceId(*pool, device.name), device, place)


def _place(piece: ResourceSliceSpec, device: Device) -> Usable | None:
    """Return where a device can be used; None if nothing says so."""
    where = device if piece.per_device_node_selection else piece
    if where.node_name:
        return Usable(where.node_name)
    if where.node_selector is not None:
        return Usable(selector=where.node_selector)
    return Usable() if where.all_nodes else None
