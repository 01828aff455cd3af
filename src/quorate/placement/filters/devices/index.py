"""The devices in use, by allocated claims and by pods that are placed before their claims are allocated.

Claims are allocated when a pod is bound.  Until then the devices that were chosen for the pod when it was
placed are kept for it, so that the pods of a gang do not count on the same device.  A claim that several pods
name is allocated with the first of them: until it is, the others can be placed only on its node.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from quorate.api.core.device_claims import DeviceClass, ResourceClaim, ResourceSlice
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.placement import failures
from quorate.placement.change_log import ChangeLog
from quorate.placement.claim_requirements import ClaimDemand, CounterId, DeviceDemand, DeviceId
from quorate.placement.failures import FilterFailure, NodeStatuses
from quorate.placement.filters.devices.allocation import Chosen, ChosenDevice, DeviceShortage, choose_devices
from quorate.placement.filters.devices.demand import allocated_devices, allocated_shares, device_of
from quorate.placement.filters.devices.inventory import DeviceInventory, PublishedDevice, share_of
from quorate.placement.filters.devices.pools import Pool
from quorate.placement.filters.devices.quantities import milli_of
from quorate.placement.filters.node_affinity import match_any_term
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.framework import Capacity
from quorate.placement.vectors import np

_MAX_EVALUATED: Final = 128  # demands with retained results, by capacity
_MAX_EXPECTED: Final = 32  # demands that are evaluated before they are asked for


@dataclass(slots=True)
class _Placed:
    """What was chosen for one placed pod with claims that are not allocated."""

    chosen: Chosen  # empty if there was nothing to choose: the pod cannot be bound
    releasing: bool


class _Evaluated:
    """The failures of nodes for one demand and capacity, as of a position in the log of changes.

    ``left``: the nodes that are not evaluated yet, or that have other devices since.
    """

    def __init__(self, epoch: Hashable) -> None:
        self.epoch, self.position = epoch, 0
        self.failed: dict[int, FilterFailure] = {}
        self.left: dict[int, None] = {}


class DeviceIndex:
    """The devices in use, by claims and by placed pods.  Every change increments ``version``."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.version = 0
        self.objects_version = 0  # of slices, classes and claims
        self.claims: dict[Key, ResourceClaim] = {}
        self.classes: dict[str, DeviceClass] = {}
        self._nodes = nodes
        self._inventory = DeviceInventory()
        self._allocated: Counter[DeviceId] = Counter()  # by claims
        self._staying: Counter[DeviceId] = Counter()  # of allocated claims of pods that stay, and that leave
        self._releasing: Counter[DeviceId] = Counter()
        # Capacities of shareable devices that allocated claims and placed pods take, also of pods that leave.
        self._shares: Counter[CounterId] = Counter()
        self._amounts: dict[DeviceId, Mapping[str, Quantity]] = {}  # of the shares of allocated claims
        self._shares_leaving: Counter[CounterId] = Counter()  # of ``_shares``: of allocated claims, as of
        self._leaving_version = 0  # this ``version``
        self._kept_shares_releasing: Counter[CounterId] = Counter()  # of ``_shares``: of placed pods
        # Devices of claims that are still allocated although the last pod has left: about to be free.
        self._left: set[DeviceId] = set()
        self._placed: dict[tuple[int, DeviceDemand], list[_Placed]] = {}
        self._kept: Counter[DeviceId] = Counter()  # chosen for placed pods that stay, and that leave
        self._kept_releasing: Counter[DeviceId] = Counter()
        self._node_of_shared: dict[str, Counter[int]] = {}  # of claims that pods name, not allocated yet
        self._changes = ChangeLog()  # nodes on which other devices are in use now
        self._epoch = 0  # incremented when those of all nodes may be
        self._node_of: dict[DeviceId, int] = {}
        self._published: tuple[Sequence[tuple[PublishedDevice, ...]], int] = (), -1  # as of a generation
        self._seen: Hashable = None  # versions of slices and nodes of ``_node_of``
        self._evaluated: dict[tuple[DeviceDemand, Capacity], _Evaluated] = {}
        self._expected: dict[DeviceDemand, None] = {}  # demands of pods, not evaluated yet
        self._changed_claims: set[Key] | None = set()  # not taken yet; None: any

    # The objects of the API.

    def set_slice(self, piece: ResourceSlice) -> None:
        self._inventory.set_slice(piece)
        self._object_changed()

    def remove_slice(self, name: str) -> None:
        self._inventory.remove_slice(name)
        self._object_changed()

    def set_class(self, device_class: DeviceClass) -> None:
        stored = self.classes.get(device_class.metadata.name)
        self.classes[device_class.metadata.name] = device_class
        if stored is None or stored.spec.selectors != device_class.spec.selectors:
            self._changed_claims = None
            self._object_changed()

    def remove_class(self, name: str) -> None:
        self.classes.pop(name, None)
        self._changed_claims = None
        self._object_changed()

    def set_claim(self, claim: ResourceClaim) -> None:
        self._count_claim(claim.metadata.key, -1)
        self.claims[claim.metadata.key] = claim
        self._count_claim(claim.metadata.key, 1)
        self._forget_freed()

    def remove_claim(self, key: Key) -> None:
        self._count_claim(key, -1)
        self.claims.pop(key, None)
        self._forget_freed()

    def _count_claim(self, key: Key, count: int) -> None:
        self._object_changed()
        if self._changed_claims is not None:
            self._changed_claims.add(key)
        claim = self.claims.get(key)
        if claim is not None:
            for device in allocated_devices(claim):
                _count(self._allocated, device, count)
                self._device_changed(device)
            for share, taken in allocated_shares(claim):
                _count(self._allocated, share, count)
                self._amounts[share] = taken
                if not self._allocated[share]:
                    del self._amounts[share]
                self._count_shares(share, taken, count)

    def _count_shares(self, device: DeviceId, taken: Mapping[str, Quantity], count: int) -> None:
        for name, amount in taken.items():
            self._shares[share_of(device_of(device), name)] += count * milli_of(amount)
        self._device_changed(device)

    def _leaving_shares(self) -> Counter[CounterId]:
        """Return what allocated claims of pods that leave take of shareable devices, in thousandths."""
        if self._leaving_version != self.version:
            self._leaving_version = self.version
            self._shares_leaving.clear()
            for share in {*self._releasing, *self._left} & self._amounts.keys():
                for name, amount in self._amounts[share].items() if not self._staying[share] else ():
                    self._shares_leaving[share_of(device_of(share), name)] += milli_of(amount)
        return self._shares_leaving

    def _forget_freed(self) -> None:
        self._left -= {device for device in self._left if not self._allocated[device]}

    def _object_changed(self) -> None:
        self.version += 1
        self.objects_version += 1

    def take_changed_claims(self) -> set[Key] | None:
        """Return the claims that changed since this was asked; None: any may have, by a class."""
        changed, self._changed_claims = self._changed_claims, set()
        return changed

    # Placed pods.

    def add(self, node: int, demand: DeviceDemand, staying: int, leaving: int) -> None:
        """Add pods with ``demand`` on the node that stay, and that leave; a negative number removes.

        A pod that leaves now, or stays after all, keeps its devices.
        """
        self.version += 1
        self._hold(demand, staying, leaving)
        if not demand.claims:
            return
        moved = max(0, min(staying, -leaving), min(-staying, leaving))
        for _ in range(moved):
            placed = self._give_back(node, demand, releasing=leaving < 0)
            self._keep(node, demand, _Placed(placed.chosen, leaving > 0))
        for releasing, count in ((False, staying), (True, leaving)):
            for _ in range(abs(count) - moved):
                if count < 0:
                    self._give_back(node, demand, releasing)
                else:
                    self._keep(node, demand, _Placed(self._chosen_for(node, demand), releasing))

    def _hold(self, demand: DeviceDemand, staying: int, leaving: int) -> None:
        """Count the devices of allocated claims."""
        for device in demand.held:
            _count(self._staying, device, staying)
            _count(self._releasing, device, leaving)
            if staying > 0 or leaving > 0:
                self._left.discard(device)
            elif leaving < 0 and not self._releasing[device] and not self._staying[device]:
                self._left.add(device)
            self._device_changed(device)

    def _chosen_for(self, node: int, demand: DeviceDemand) -> Chosen:
        """Choose devices for one more pod; nothing if there are not enough."""
        chosen = self._choose(node, demand, Capacity.IDLE)
        if isinstance(chosen, DeviceShortage):
            chosen = self._choose(node, demand, Capacity.FUTURE_IDLE)
        return () if isinstance(chosen, DeviceShortage) else chosen

    def _keep(self, node: int, demand: DeviceDemand, placed: _Placed) -> None:
        self._placed.setdefault((node, demand), []).append(placed)
        self._count_placed(node, demand, placed, 1)

    def _give_back(self, node: int, demand: DeviceDemand, releasing: bool) -> _Placed:
        """Remove one of the placed pods with ``demand``, which are equal.

        The pods that stay keep the devices that are free: others may wait for pods that leave.
        """
        of_demand = self._placed[node, demand]
        equal = [at for at, taken in enumerate(of_demand) if taken.releasing == releasing]
        placed = of_demand.pop(max(equal, key=lambda at: (self._awaits_devices(of_demand[at]), at)))
        if not of_demand:
            del self._placed[node, demand]
        self._count_placed(node, demand, placed, -1)
        return placed

    def _awaits_devices(self, placed: _Placed) -> bool:
        return not placed.chosen or any(
            self._allocated[device.id] or self._kept_releasing[device.id] for device in _taken(placed.chosen)
        )

    def _count_placed(self, node: int, demand: DeviceDemand, placed: _Placed, count: int) -> None:
        kept = self._kept_releasing if placed.releasing else self._kept
        for chosen in _taken(placed.chosen):
            if chosen.shares is None:
                _count(kept, chosen.id, count)
                self._device_changed(chosen.id)
            else:
                self._count_shares(chosen.id, chosen.shares, count)
                for name, amount in chosen.shares.items() if placed.releasing else ():
                    self._kept_shares_releasing[share_of(chosen.id, name)] += count * milli_of(amount)
        for claim in demand.claims:
            if claim.shared:
                users = self._node_of_shared.setdefault(claim.shared, Counter())
                users[node] += count
                if not users[node]:
                    del users[node]
                if not users:
                    del self._node_of_shared[claim.shared]
                self._epoch += 1

    def chosen(self, node: int, demand: DeviceDemand) -> Chosen | DeviceShortage:
        """Return the devices of a pod with ``demand`` that was placed on the node and is not bound yet.

        If none are kept for such a pod, choose devices among the free ones.
        """
        for placed in self._placed.get((node, demand), ()):
            if placed.chosen and not any(self._allocated[device.id] for device in _taken(placed.chosen)):
                return placed.chosen
        return self._choose(node, demand, Capacity.IDLE)

    # Filtering.

    def filter(self, demand: DeviceDemand, capacity: Capacity, statuses: NodeStatuses) -> None:
        """Reject the nodes that cannot reach the devices of allocated claims, or have none for others."""
        for selector in demand.nodes:
            matching = match_any_term(self._nodes, selector.node_selector_terms)
            statuses.reject(~matching & ~self._nodes.vacant, failures.DEVICES_ELSEWHERE)
        if not demand.claims:
            return
        by_failure: dict[FilterFailure, list[int]] = {}
        for node, failure in self._evaluate(demand, capacity).items():
            by_failure.setdefault(failure, []).append(node)
        for failure, rejected in by_failure.items():
            mask = np.zeros(self._nodes.size, np.bool_)
            mask[rejected] = True
            statuses.reject(mask, failure)

    def expect(self, demand: DeviceDemand) -> None:
        """Note that a pod has ``demand``, for ``evaluate_expected``."""
        if (
            demand.claims
            and len(self._expected) < _MAX_EXPECTED
            and (demand, Capacity.IDLE) not in self._evaluated
        ):
            self._expected[demand] = None

    def evaluation_steps(self, devices: int) -> Iterator[None]:
        """Evaluate expected demands, in each step on nodes with ``devices`` devices at least.

        The first evaluation of a demand reads all devices; ``filter`` would make it in one piece.  Objects
        may change between two steps.
        """
        left = devices
        if self._expected:
            yield from self._inventory.reading_steps(devices)
            self._note_published()
            yield
        while self._expected:
            demand = next(iter(self._expected))
            for capacity in Capacity:
                while (evaluated := self._evaluate_nodes(demand, capacity, left)) >= left:
                    left = devices
                    yield
                left -= evaluated
            self._expected.pop(demand, None)

    def _evaluate(self, demand: DeviceDemand, capacity: Capacity) -> dict[int, FilterFailure]:
        self._evaluate_nodes(demand, capacity, math.inf)
        return self._evaluated[demand, capacity].failed

    def _evaluate_nodes(self, demand: DeviceDemand, capacity: Capacity, devices: float) -> int:
        """Evaluate nodes until they have ``devices`` devices; return how many they have."""
        self._note_published()
        epoch = (self._epoch, self._nodes.generation)
        so_far = self._evaluated.get((demand, capacity))
        changed = None if so_far is None or so_far.epoch != epoch else self._changes.since(so_far.position)
        if so_far is None or changed is None:
            if len(self._evaluated) >= _MAX_EVALUATED:
                self._evaluated.clear()
            changed = np.flatnonzero(~self._nodes.vacant).tolist()
            so_far = self._evaluated[demand, capacity] = _Evaluated(epoch)
        so_far.left |= dict.fromkeys(changed)
        so_far.position = self._changes.end
        visible = self._inventory.visible(self._nodes)
        evaluated = 0
        while so_far.left and evaluated < devices:
            node, _ = so_far.left.popitem()
            evaluated += 1 + len(visible[node])
            failure = self._failure(node, demand, capacity)
            if failure is None:
                so_far.failed.pop(node, None)
            else:
                so_far.failed[node] = failure
        return evaluated

    def _note_published(self) -> None:
        """Record the nodes on which pods can use other devices than before: the nodes of changed slices."""
        before, generation = self._published
        now = self._inventory.visible(self._nodes)
        if now is not before:
            self._published = now, self._nodes.generation
            if generation != self._nodes.generation or len(before) != len(now):
                self._epoch += 1
            else:
                for node, (old, new) in enumerate(zip(before, now, strict=True)):
                    if old != new:
                        self._changes.append(node)

    def _failure(self, node: int, demand: DeviceDemand, capacity: Capacity) -> FilterFailure | None:
        for claim in self._elsewhere(demand, node):
            return failures.device_claim_being_allocated(claim.shared)
        chosen = self._choose(node, demand, capacity)
        if not isinstance(chosen, DeviceShortage):
            return None
        visible = self._inventory.visible(self._nodes)[node]
        ever: Chosen | DeviceShortage = chosen
        if any(
            published.is_shareable or published.consumes or not self._is_free(published.id, capacity)
            for published in visible
        ):
            counters = self._inventory.counters_left(visible, lambda _: True)
            ever = choose_devices(demand.claims, visible, lambda _: True, counters)
        return failures.devices_missing(str(chosen), is_permanent=isinstance(ever, DeviceShortage))

    def _elsewhere(self, demand: DeviceDemand, node: int) -> Iterator[ClaimDemand]:
        """Yield the claims that a pod on another node is about to get devices for."""
        for claim in demand.claims:
            users = self._node_of_shared.get(claim.shared) if claim.shared else None
            if users is not None and node not in users:
                yield claim

    def _choose(self, node: int, demand: DeviceDemand, capacity: Capacity) -> Chosen | DeviceShortage:
        claims = [
            replace(claim, requests=()) if node in self._node_of_shared.get(claim.shared, ()) else claim
            for claim in demand.claims
        ]
        visible = self._inventory.visible(self._nodes)[node]

        def is_free(published: PublishedDevice) -> bool:
            return self._is_free(published.id, capacity)

        counters = self._inventory.counters_left(visible, is_free)
        left = {counter: amount - self._shares[counter] for counter, amount in counters.items()}
        if capacity is Capacity.FUTURE_IDLE:
            leaving = self._leaving_shares()
            for counter in left:
                left[counter] += leaving[counter] + self._kept_shares_releasing[counter]
        return choose_devices(claims, visible, is_free, left)

    def _is_free(self, device: DeviceId, capacity: Capacity) -> bool:
        if self._kept[device]:
            return False
        if not self._allocated[device] and not self._kept_releasing[device]:
            return True
        is_leaving = not self._staying[device] and (
            self._releasing[device] or device in self._left or not self._allocated[device]
        )
        return capacity is Capacity.FUTURE_IDLE and bool(is_leaving)

    def affects_other_nodes(self, demand: DeviceDemand) -> bool:
        """Return whether a pod may take devices that other nodes can use too."""
        return any(claim.shared for claim in demand.claims) or self._inventory.has_shared

    def _device_changed(self, device: DeviceId) -> None:
        seen = (self._inventory.version, self._nodes.generation)
        if seen != self._seen:
            self._seen = seen
            self._node_of = {
                published.id: node
                for node, visible in enumerate(self._inventory.visible(self._nodes))
                for published in visible
                if published.is_local and not self._shares_with_other_nodes(published)
            }
        node = self._node_of.get(device_of(device))
        if node is None:
            self._epoch += 1
        else:
            self._changes.append(node)

    def _shares_with_other_nodes(self, published: PublishedDevice) -> bool:
        return bool(published.consumes) and self._inventory.spans_nodes(Pool(*published.id[:2]))


def _taken(chosen: Chosen) -> Iterator[ChosenDevice]:
    for claim in chosen:
        for device in claim:
            if not device.admin_access:
                yield device


def _count(counter: Counter[DeviceId], device: DeviceId, count: int) -> None:
    counter[device] += count
    if not counter[device]:
        del counter[device]
