"""The devices of resource pools, as drivers publish them in resource slices.

A pool counts once all slices of its newest generation are known: else a device would count twice, or not at
all, while a driver replaces slices one by one.

Source: resource.k8s.io/v1 and kube-scheduler's plugin DynamicResources (KEP-4381).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from quorate.api import codec
from quorate.api.core.device_claims import Device, ResourceSlice, ResourceSliceSpec
from quorate.placement.claim_requirements import CounterId, DeviceId
from quorate.placement.filters.devices.quantities import milli_of
from quorate.placement.filters.devices.selectors import Reads, Selector, SelectorProblem, compiled

MAX_DEVICES: Final = 32  # of one claim
MAX_READS: Final = 32  # of each part of a pool, of which what expressions select is kept
MAX_SELECTED: Final = 256  # tuples of expressions with results, for each of these
PART: Final = 128  # devices, as many as a slice may have


class Pool(NamedTuple):
    driver: str
    name: str


class ResourcePools:
    """Resource slices by their pool."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSliceSpec] = {}  # by name
        self._of_pool: dict[Pool, set[str]] = {}  # names of the slices of each

    def __iter__(self) -> Iterator[Pool]:
        """Return all pools, ordered by driver and name."""
        return iter(sorted(self._of_pool))

    def __contains__(self, pool: Pool) -> bool:
        return pool in self._of_pool

    def set_slice(self, piece: ResourceSlice) -> tuple[Pool, ...]:
        """Return the pools that change: of the slice as it was and as it is; empty if the slice is equal."""
        name, spec = piece.metadata.name, piece.spec
        if self._slices.get(name) == spec:
            return ()
        left, pool = self.remove_slice(name), _pool(spec)
        self._slices[name] = spec
        self._of_pool.setdefault(pool, set()).add(name)
        return (*left, pool)

    def remove_slice(self, name: str) -> tuple[Pool, ...]:
        spec = self._slices.pop(name, None)
        if spec is None:
            return ()
        pool = _pool(spec)
        self._of_pool[pool].discard(name)
        if not self._of_pool[pool]:
            del self._of_pool[pool]
        return (pool,)

    def _current(self, pool: Pool) -> list[ResourceSliceSpec]:
        """Return the slices of the newest generation; empty if some are missing."""
        pieces = [self._slices[name] for name in sorted(self._of_pool[pool])]
        newest = max(piece.pool.generation for piece in pieces)
        current = [piece for piece in pieces if piece.pool.generation == newest]
        return current if len(current) == current[0].pool.resource_slice_count else []

    def counters(self, pool: Pool) -> dict[CounterId, int]:
        """Return the counters that devices of ``pool`` share, in thousandths."""
        return {
            CounterId(*pool, counter_set.name, name): milli_of(counter.value)
            for piece in self._current(pool)
            for counter_set in piece.shared_counters
            for name, counter in counter_set.counters.items()
        }

    def devices(self, pool: Pool) -> list[tuple[ResourceSliceSpec, Device]]:
        """Return the devices of ``pool`` with their slices; empty if the pool is incomplete."""
        devices = [(piece, device) for piece in self._current(pool) for device in piece.devices]
        if len({device.name for _, device in devices}) != len(devices):
            return []  # the driver made a mistake: no device is known by its name
        return devices


def _pool(spec: ResourceSliceSpec) -> Pool:
    return Pool(spec.driver, spec.pool.name)


class SelectedDevices(NamedTuple):
    """How many devices expressions select, and what a claim can get of them.

    ``exclusive``: those that one claim has alone, at most ``MAX_DEVICES``: none gets more.  ``different``:
    one device for each different content in capacities and consumed counters.  ``failure``: why an expression
    failed for another device, or empty.
    """

    matching: int
    shareable: int  # of ``matching``: those that several claims can have
    exclusive: tuple[DeviceId, ...]
    different: Mapping[bytes, Device]
    failure: str


class _Selected(NamedTuple):
    """As ``SelectedDevices``, by positions of devices in a pool; ``failed``: of the first that failed."""

    matching: int
    exclusive: tuple[int, ...]
    exclusive_count: int
    different: Mapping[bytes, Device]
    failed: tuple[int, str] | None


class _EqualDevices:
    """Devices of pools that are equal in what some expressions read, in capacities and in counters."""

    def __init__(
        self, driver: str, devices: Sequence[Device], keys: Iterable[tuple[bytes, Hashable]]
    ) -> None:
        self.selected: dict[Sequence[str], _Selected] = {}  # by expressions
        self._driver, self._devices = driver, devices
        self._equal: dict[tuple[bytes, Hashable], list[int]] = {}  # positions of equal devices
        for at, key in enumerate(keys):
            self._equal.setdefault(key, []).append(at)

    def select(self, expressions: Sequence[str]) -> Iterator[int]:
        """Compute the devices that all ``expressions`` select; yield the units of work of each step.

        An expression is evaluated for the devices that the previous expressions select.
        """
        selectors = _selectors(expressions)
        exclusive: list[int] = []
        different: dict[bytes, Device] = {}
        matching = 0
        failed: tuple[int, str] | None = None
        for (content, _), positions in self._equal.items():
            device = self._devices[positions[0]]
            for selector in selectors:
                before = selector.evaluations
                result = selector.matches(self._driver, device)
                yield 5 + (selector.evaluations - before) * selector.units
                if result is not True:
                    if failed is None and isinstance(result, SelectorProblem):
                        failed = positions[0], result.message
                    break
            else:
                matching += len(positions)
                different[content] = device
                exclusive += () if device.allow_multiple_allocations else positions
        first = tuple(sorted(exclusive)[:MAX_DEVICES])
        if len(self.selected) >= MAX_SELECTED:
            self.selected.clear()
        self.selected[expressions] = _Selected(matching, first, len(exclusive), different, failed)


class _Part:
    """Some devices of one pool: at most ``PART`` of them, so that few are evaluated at once."""

    def __init__(self, driver: str, devices: Sequence[Device]) -> None:
        self.devices = devices
        self.equal: dict[Reads, _EqualDevices] = {}
        self._driver = driver
        self._contents: list[bytes] = []

    def keys(self, reads: Reads) -> tuple[tuple[bytes, Hashable], ...]:
        """Return for each device its content, and the values that ``reads`` reads of the device."""
        if not self._contents:
            self._contents = [
                codec.encode((published.capacity, published.consumes_counters)) for published in self.devices
            ]
        return tuple(
            (content, reads.key(self._driver, device))
            for content, device in zip(self._contents, self.devices, strict=True)
        )


class DeviceCatalog:
    """The devices of all pools, wherever pods can use them, by the expressions that select them.

    An expression is evaluated once for devices that are equal in what it reads.  What was selected is kept
    for each pool until the pool changes.  One unit of work takes about 0.2 microseconds.
    """

    def __init__(self) -> None:
        self._pools = ResourcePools()
        self._of_pool: dict[Pool, list[_Part]] = {}
        self._equal: WeakValueDictionary[Hashable, _EqualDevices] = WeakValueDictionary()
        self._merged: dict[tuple[tuple[str, ...], str], SelectedDevices] = {}  # until a pool changes

    def set_slice(self, piece: ResourceSlice) -> bool:
        """Return True if the devices of a pool change."""
        return self._forget(self._pools.set_slice(piece))

    def remove_slice(self, name: str) -> bool:
        return self._forget(self._pools.remove_slice(name))

    def _forget(self, changed: tuple[Pool, ...]) -> bool:
        for pool in changed:
            self._of_pool.pop(pool, None)
            self._merged.clear()
        return bool(changed)

    def select(self, expressions: tuple[str, ...], driver: str = "") -> SelectedDevices:
        """Return the devices of ``driver`` (empty: of all drivers) that all ``expressions`` select.

        A device for which an expression fails is not selected.  An expression that does not compile selects
        each device.
        """
        for _ in self.steps(expressions, driver):
            pass
        return self._merged[expressions, driver]

    def steps(self, expressions: tuple[str, ...], driver: str = "") -> Iterator[int]:
        """Compute what ``select`` returns; yield the units of work of each step.

        Pools may change between two steps; then these are computed once more.
        """
        while (expressions, driver) not in self._merged:
            for text in expressions:
                before = compiled.cache_info().misses
                compiled(text)
                yield (compiled.cache_info().misses - before) * (500 + 12 * len(text))
            reads = reduce(or_, (selector.reads for selector in _selectors(expressions)), Reads())
            pools = [pool for pool in self._pools if driver in ("", pool.driver)]
            for pool in pools:
                if pool not in self._of_pool and pool in self._pools:
                    yield 10 * sum(len(part.devices) for part in self._parts(pool))
            parts = [(pool, part) for pool in pools if pool in self._pools for part in self._parts(pool)]
            missing = [
                (pool, part)
                for pool, part in parts
                if (read := part.equal.get(reads)) is None or expressions not in read.selected
            ]
            for pool, part in missing:
                yield 25 * len(part.devices)
                equal = self._equal_devices(pool, part, reads)
                if expressions not in equal.selected:
                    yield from equal.select(expressions)
            if not missing:
                selected = [part.equal[reads].selected[expressions] for _, part in parts]
                self._merged[expressions, driver] = _merge(parts, selected)
            yield 5 * len(parts)

    def _parts(self, pool: Pool) -> list[_Part]:
        if pool not in self._of_pool:
            devices = [device for _, device in self._pools.devices(pool)]
            self._of_pool[pool] = [
                _Part(pool.driver, devices[at : at + PART]) for at in range(0, len(devices), PART)
            ]
        return self._of_pool[pool]

    def _equal_devices(self, pool: Pool, part: _Part, reads: Reads) -> _EqualDevices:
        equal = part.equal.get(reads)
        if equal is None:
            keys = part.keys(reads)
            equal = self._equal.get((pool.driver, reads, keys))
            if equal is None:
                equal = _EqualDevices(pool.driver, part.devices, keys)
                self._equal[pool.driver, reads, keys] = equal
            if len(part.equal) >= MAX_READS:
                part.equal.clear()
            part.equal[reads] = equal
        return equal


def _merge(parts: Iterable[tuple[Pool, _Part]], selected: Iterable[_Selected]) -> SelectedDevices:
    matching, exclusive_count, failure = 0, 0, ""
    exclusive: list[DeviceId] = []
    different: dict[bytes, Device] = {}
    for (pool, part), of_part in zip(parts, selected, strict=True):
        matching += of_part.matching
        exclusive_count += of_part.exclusive_count
        different |= of_part.different
        if len(exclusive) < MAX_DEVICES:
            exclusive += (DeviceId(*pool, part.devices[at].name) for at in of_part.exclusive)
        if of_part.failed and not failure:
            at, message = of_part.failed
            failure = f"a selector failed for {pool.driver}/{pool.name}/{part.devices[at].name}: {message}"
    shareable = matching - exclusive_count
    return SelectedDevices(matching, shareable, tuple(exclusive[:MAX_DEVICES]), different, failure)


def _selectors(expressions: Iterable[str]) -> list[Selector]:
    """Return the selectors of the expressions that compile."""
    return [selector for text in expressions if isinstance(selector := compiled(text), Selector)]
