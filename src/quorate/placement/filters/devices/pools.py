"""The devices of resource pools, as drivers publish them in resource slices.

A pool counts once all slices of its newest generation are known: else a device would count twice, or not at
all, while a driver replaces slices one by one.

Source: resource.k8s.io/v1 and kube-scheduler's plugin DynamicResources (KEP-4381).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from quorate.api.core.device_claims import Device, ResourceSlice, ResourceSliceSpec
from quorate.placement.claim_requirements import CounterId, DeviceId
from quorate.placement.filters.devices.quantities import milli_of
from quorate.placement.filters.devices.selectors import SelectorProblem, compiled


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
    """The devices that expressions select; ``failure``: why one failed for another device, or empty."""

    devices: tuple[tuple[DeviceId, Device], ...]
    failure: str = ""


class _PoolDevices:
    """The devices of one pool, with the results of expressions."""

    def __init__(self, pool: Pool, devices: Sequence[Device]) -> None:
        self._pool, self._devices = pool, devices
        self._results: dict[
            str, list[bool | SelectorProblem | None]
        ] = {}  # by expression; None: not evaluated
        self._selected: dict[tuple[str, ...], SelectedDevices] = {}

    def select(self, expressions: tuple[str, ...]) -> SelectedDevices:
        """Return the devices that all ``expressions`` select.

        An expression is evaluated for the devices that the previous expressions select.
        """
        selected = self._selected.get(expressions)
        if selected is None:
            left, failure = list(range(len(self._devices))), ""
            for text in expressions:
                results = self._evaluate(text, left)
                failure = failure or next(self._failures(results, left), "")
                left = [at for at in left if results[at] is True]
            devices = tuple((DeviceId(*self._pool, self._devices[at].name), self._devices[at]) for at in left)
            selected = self._selected[expressions] = SelectedDevices(devices, failure)
        return selected

    def _evaluate(self, text: str, positions: Iterable[int]) -> Sequence[bool | SelectorProblem | None]:
        selector = compiled(text)
        if isinstance(selector, SelectorProblem):
            return [True] * len(self._devices)
        results = self._results.setdefault(text, [None] * len(self._devices))
        for at in positions:
            if results[at] is None:
                results[at] = selector.matches(self._pool.driver, self._devices[at])
        return results

    def _failures(
        self, results: Sequence[bool | SelectorProblem | None], positions: Iterable[int]
    ) -> Iterator[str]:
        for at in positions:
            if isinstance(problem := results[at], SelectorProblem):
                name = f"{self._pool.driver}/{self._pool.name}/{self._devices[at].name}"
                yield f"a selector failed for {name}: {problem.message}"


class DeviceCatalog:
    """The devices of all pools, wherever pods can use them, by the expressions that select them.

    What was selected is kept for each pool until the pool changes.
    """

    def __init__(self) -> None:
        self._pools = ResourcePools()
        self._of_pool: dict[Pool, _PoolDevices] = {}

    def set_slice(self, piece: ResourceSlice) -> bool:
        """Return True if the devices of a pool change."""
        return self._forget(self._pools.set_slice(piece))

    def remove_slice(self, name: str) -> bool:
        return self._forget(self._pools.remove_slice(name))

    def _forget(self, changed: tuple[Pool, ...]) -> bool:
        for pool in changed:
            self._of_pool.pop(pool, None)
        return bool(changed)

    def select(self, expressions: tuple[str, ...], driver: str = "") -> SelectedDevices:
        """Return the devices of ``driver`` (empty: of all drivers) that all ``expressions`` select.

        A device for which an expression fails is not selected.  An expression that does not compile selects
        each device.
        """
        selected: list[tuple[DeviceId, Device]] = []
        failure = ""
        for pool in self._pools:
            if driver not in ("", pool.driver):
                continue
            if pool not in self._of_pool:
                devices = [device for _, device in self._pools.devices(pool)]
                self._of_pool[pool] = _PoolDevices(pool, devices)
            of_pool = self._of_pool[pool].select(expressions)
            selected += of_pool.devices
            failure = failure or of_pool.failure
        return SelectedDevices(tuple(selected), failure)
