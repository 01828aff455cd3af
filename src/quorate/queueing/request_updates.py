"""Update the requests of pending workloads in slices after a change of objects that they depend on.

What a pod requests depends on objects beside its workload: limit ranges, runtime classes, claim templates,
device classes and resource slices.  One change of these may concern every pending workload, so it only makes
their requests *out of date* (see ``ShapeRegistry.version``).  What claims count is computed in slices, too.
Requests are updated in two places:

- A head with requests that are out of date is updated when it is popped, so none is evaluated with them.
- A pass over all workloads updates the rest in slices, one for each run of the admission cycle.  A change
  during a pass leads to another one.  The pass makes inadmissible workloads active, and counts the places of
  pods in topologies anew; until then both are as before the change.
"""

from collections.abc import Iterator
from typing import Final

from quorate.api.core import LimitRange, RuntimeClass
from quorate.api.core.device_claims import DeviceClass, ResourceClaimTemplate, ResourceSlice
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.ledger import Ledger
from quorate.queueing.limits import BYTES_PER_UNIT, SLICE_UNITS, UPDATE_UNITS
from quorate.queueing.pending.entry import Entry

_ALL: Final = ""  # in place of a namespace


def update_units(workload: Workload) -> int:
    """Return the work to update the requests of ``workload``."""
    return UPDATE_UNITS + sum(len(pod_set.template) for pod_set in workload.spec.pod_sets) // BYTES_PER_UNIT


class RequestUpdates:
    """Updates requests that are out of date: of heads when they are popped, of other workloads in slices."""

    def __init__(self, ledger: Ledger, slice_units: int = SLICE_UNITS) -> None:
        self.slice_units = slice_units
        self._ledger = ledger
        self._units_for_heads = slice_units
        self._changed: set[str] = set()  # the namespaces, ``_ALL`` included, to begin the next pass with
        self._in_pass: set[str] = set()
        self._keys: Iterator[Key] = iter(())  # of the pass, those not visited

    def take_over(self, other: "RequestUpdates") -> None:
        """Go on with the ledger and the pending updates of ``other``, which is not used any more."""
        for plural in self._ledger.shapes.devices.unreadable:
            other.set_unreadable(plural, True)
        self._ledger, self._units_for_heads = other._ledger, other._units_for_heads
        self._changed, self._in_pass, self._keys = other._changed, other._in_pass, other._keys

    @property
    def are_pending(self) -> bool:
        """Return True if another slice may update more workloads."""
        return self._ledger.shapes.devices.is_stale or bool(self._changed or self._in_pass)

    @property
    def is_head_missing(self) -> bool:
        """Return True if so many heads were updated since the last slice that a queue got none."""
        return self._units_for_heads <= 0

    def concern(self, namespace: str) -> bool:
        """Return True if places of ``namespace`` may be counted with requests that are out of date."""
        concerned = (self._changed, self._in_pass)
        return self._ledger.shapes.devices.is_stale or any(
            name in names for names in concerned for name in (_ALL, namespace)
        )

    def put_runtime_class(self, runtime_class: RuntimeClass) -> None:
        self._note(self._ledger.shapes.put_runtime_class(runtime_class))

    def remove_runtime_class(self, name: str) -> None:
        self._note(self._ledger.shapes.remove_runtime_class(name))

    def put_limit_range(self, limit_range: LimitRange) -> None:
        self._note(self._ledger.shapes.put_limit_range(limit_range), limit_range.metadata.namespace)

    def remove_limit_range(self, key: Key) -> None:
        self._note(self._ledger.shapes.remove_limit_range(key), key.namespace)

    def put_claim_template(self, template: ResourceClaimTemplate) -> None:
        self._ledger.shapes.devices.put_template(template)

    def remove_claim_template(self, key: Key) -> None:
        self._ledger.shapes.devices.remove_template(key)

    def put_device_class(self, device_class: DeviceClass) -> None:
        self._ledger.shapes.devices.put_class(device_class)

    def remove_device_class(self, name: str) -> None:
        self._ledger.shapes.devices.remove_class(name)

    def put_resource_slice(self, piece: ResourceSlice) -> None:
        self._ledger.shapes.devices.put_slice(piece)

    def remove_resource_slice(self, name: str) -> None:
        self._ledger.shapes.devices.remove_slice(name)

    def set_unreadable(self, plural: str, is_unreadable: bool) -> None:
        """Note whether a kind of objects that claims of devices depend on cannot be read."""
        self._ledger.shapes.devices.set_unreadable(plural, is_unreadable)

    def _note(self, has_changed: bool, namespace: str = _ALL) -> None:
        """Update the requests of the workloads of a namespace, or of all, with the next slices."""
        if has_changed:
            self._changed.add(namespace)

    def run_slice(self) -> None:
        """Update some more workloads."""
        self._units_for_heads = units = self.slice_units
        ledger = self._ledger
        self._changed |= ledger.shapes.update_devices(units // 2)
        if not self._in_pass and self._changed:
            self._in_pass, self._changed = self._changed, set()
            self._keys = iter([*ledger.entries, *ledger.reservations])
        for key in self._keys:
            units -= self._visit(key)
            if units <= 0:
                return
        self._in_pass = set()
        if not self._changed:
            ledger.shapes.all_are_up_to_date()

    def _visit(self, key: Key) -> int:
        """Update the workload ``key`` if its requests changed; return the units of work."""
        ledger = self._ledger
        entry = ledger.entries.get(key)
        if entry is not None:
            if not ledger.shapes.is_out_of_date(entry.requests_version, key.namespace):
                return 1
            ledger.update_requests(entry)
            return update_units(entry.workload)
        reservation = ledger.reservations.get(key)
        if reservation is None or not reservation.places.all:
            return 1
        if _ALL not in self._in_pass and key.namespace not in self._in_pass:
            return 1
        ledger.update_places(reservation)
        return update_units(reservation.workload) + len(reservation.places.all)

    def pop_head(self, queue: ClusterQueueState) -> Entry | None:
        """Put the first active workload of ``queue`` in flight, with its current requests, and return it.

        Return None if no workload is active.  Return None also if the requests of too many workloads changed
        and each of these workloads became inadmissible, as others of its new shape are; then
        ``is_head_missing`` is True.
        """
        pending, ledger = queue.pending, self._ledger
        while (entry := pending.pop()) is not None:
            if not ledger.shapes.is_out_of_date(entry.requests_version, entry.key.namespace):
                return entry
            self._units_for_heads -= update_units(entry.workload)
            if ledger.update_requests(entry):
                entry.is_explained = False
            if not pending.is_inadmissible_shape(entry):
                return entry
            pending.in_flight = None
            pending.push(entry)
            if self.is_head_missing:
                return None
        return None
