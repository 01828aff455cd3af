"""Claims for a part of a device, and claims that too few devices match.

A DeviceClass with sources in the configuration counts counters or capacities of devices instead of devices.
Which device a pod gets is not known before the pod runs.  Therefore a request counts the largest amount among
the devices that match the selectors of the request, of its class and of the source.  The amount of a counter
is what the device consumes.  The amount of a capacity is what the claim requests, else the default of the
device, else the whole capacity, rounded up as the device publishes.

Source: Kueue 0.20 (KEP-2941), the words of which the problems contain.  A device is not counted for two
requests of one claim if another choice of devices satisfies both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from quorate.api.configuration.queueing import DeviceSource
from quorate.api.core.device_claims import (
    Device,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from quorate.api.quantity import Quantity
from quorate.placement.claim_requirements import DeviceId
from quorate.placement.filters.devices.demand import selector_expressions
from quorate.placement.filters.devices.pools import MAX_DEVICES, DeviceCatalog, SelectedDevices
from quorate.placement.filters.devices.quantities import INT64_MAX, capacity_charge
from quorate.placement.filters.devices.selectors import SelectorProblem, capacity_named, compiled
from quorate.quota.amount import base_units

TEMPLATES: Final = "resourceclaimtemplates"
_CLASSES: Final = "deviceclasses"
_SLICES: Final = "resourceslices"
UNREADABLE: Final = "cannot be read (Forbidden)"


def absence(plural: str, unreadable: Collection[str]) -> str:
    """Return why an object of the kind ``plural`` is not known."""
    return f"is not known: {plural} {UNREADABLE}" if plural in unreadable else "does not exist"


class ClaimProblem(NamedTuple):
    """Why a claim cannot be counted; ``field``: below the claim; ``short_by``: devices that are missing."""

    field: str
    text: str
    short_by: int = 0


class _Request(NamedTuple):
    field: str
    exactly: ExactDeviceRequest
    expressions: tuple[str, ...]  # of the class and of the request


def selections(
    spec: ResourceClaimSpec, sources: Mapping[str, Sequence[DeviceSource]], classes: Mapping[str, DeviceClass]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the expressions, and the drivers, by which ``charges`` selects devices."""
    for request in spec.devices.requests:
        exactly = request.exactly
        if exactly is None or exactly.device_class_name not in classes:
            continue
        expressions = _expressions(classes[exactly.device_class_name], exactly)
        if exactly.selectors:
            yield expressions, ""
        for source in sources.get(exactly.device_class_name, ()):
            yield (source.expression, *expressions), source.driver


def _expressions(device_class: DeviceClass, exactly: ExactDeviceRequest) -> tuple[str, ...]:
    return tuple(selector_expressions((*device_class.spec.selectors, *exactly.selectors)))


def charges(
    spec: ResourceClaimSpec,
    sources: Mapping[str, Sequence[DeviceSource]],
    classes: Mapping[str, DeviceClass],
    catalog: DeviceCatalog,
    unreadable: Collection[str] = (),
) -> tuple[dict[str, int], tuple[ClaimProblem, ...]]:
    """Return by resource what a claim takes of devices of classes with ``sources``, in base units.

    Also return why requests cannot be counted, or cannot be satisfied by the devices of ``catalog``.
    ``unreadable``: kinds that cannot be read; without slices, selectors are not compared with devices.
    """
    evaluated = [*_evaluated_requests(spec, sources, classes, unreadable)]
    requests = [request for request in evaluated if isinstance(request, _Request)]
    problems = [problem for problem in evaluated if isinstance(problem, ClaimProblem)]
    unmatched = {problem.field: problem for problem in _unmatched(requests, catalog)}
    problems += unmatched.values()
    amounts: dict[str, int] = {}
    for field, exactly, expressions in requests:
        selectors_field = f"{field}.exactly.selectors"
        if exactly.admin_access or selectors_field in unmatched:
            continue
        for source in sources.get(exactly.device_class_name, ()):
            selected = catalog.select((source.expression, *expressions), source.driver)
            amount = _invalid(field, (source.expression,)) or _charge(field, exactly, source, selected)
            if isinstance(amount, ClaimProblem):
                problems.append(amount)
            else:
                amounts[source.resource] = min(amounts.get(source.resource, 0) + amount, INT64_MAX)
    return amounts, tuple(problems)


def _evaluated_requests(
    spec: ResourceClaimSpec,
    sources: Mapping[str, Sequence[DeviceSource]],
    classes: Mapping[str, DeviceClass],
    unreadable: Collection[str],
) -> Iterator[_Request | ClaimProblem]:
    """Yield the requests of a claim to evaluate the devices of, or why they cannot be evaluated."""
    for at, request in enumerate(spec.devices.requests):
        exactly, field = request.exactly, f"devices.requests[{at}]"
        if exactly is None:
            continue
        has_sources, has_slices = exactly.device_class_name in sources, _SLICES not in unreadable
        if not has_sources and not (exactly.selectors and has_slices):
            continue
        if not has_slices:
            yield ClaimProblem(field, f"its devices are not known: {_SLICES} {UNREADABLE}")
            continue
        device_class = classes.get(exactly.device_class_name)
        if device_class is None:
            absent = absence(_CLASSES, unreadable)
            yield ClaimProblem(field, f"failed to get DeviceClass {exactly.device_class_name}: it {absent}")
            continue
        expressions = _expressions(device_class, exactly)
        yield _invalid(field, expressions) or _Request(field, exactly, expressions)


def _invalid(field: str, expressions: Iterable[str]) -> ClaimProblem | None:
    """Return the problem of the first expression that is not valid.

    An expression that may be valid, and is not evaluated here, selects each device.
    """
    for text in expressions:
        problem = compiled(text)
        if isinstance(problem, SelectorProblem) and not problem.is_unsupported:
            return ClaimProblem(field, f"CEL compilation failed: {text:.80}: {problem.message}")
    return None


def _unmatched(requests: Iterable[_Request], catalog: DeviceCatalog) -> Iterator[ClaimProblem]:
    """Yield the requests with selectors of which not enough devices match, with the number that do.

    Kubernetes allocates at most ``MAX_DEVICES`` devices to a claim; if more are requested, each request is
    counted alone.
    """
    wanted: list[tuple[_Request, SelectedDevices]] = [
        (request, catalog.select(request.expressions)) for request in requests if request.exactly.selectors
    ]
    exclusive = [
        (max(request.exactly.count - selected.shareable, 0), selected)
        for request, selected in wanted
        if not request.exactly.admin_access
    ]
    if sum(count for count, _ in exclusive) > MAX_DEVICES:
        shares = iter([min(count, selected.matching - selected.shareable) for count, selected in exclusive])
    else:
        shares = iter(matched_counts([(count, selected.exclusive) for count, selected in exclusive]))
    for request, selected in wanted:
        exactly = request.exactly
        is_admin = exactly.admin_access
        matching = selected.matching if is_admin else selected.shareable + next(shares)
        if matching < exactly.count:
            text = (
                f"insufficient matching devices for CEL selector in DeviceClass {exactly.device_class_name}: "
                f"{matching} device(s) match in the cluster but {exactly.count} requested"
            )
            field = f"{request.field}.exactly.selectors"
            yield ClaimProblem(field, _with_failure(text, selected), exactly.count - matching)


def _with_failure(text: str, selected: SelectedDevices) -> str:
    return f"{text} ({selected.failure})" if selected.failure else text


def matched_counts(requests: Sequence[tuple[int, Sequence[DeviceId]]]) -> list[int]:
    """Return for each request, a count and the devices that match, how many of its devices it gets.

    No device is counted twice.  A request gets less than its count only if no choice of devices satisfies it
    together with the requests before it.  The first devices suffice, as many as all requests count together.
    """
    owners: dict[DeviceId, int] = {}

    def take(at: int, visited: set[int]) -> bool:
        visited.add(at)
        for device in requests[at][1]:
            if device not in owners:
                owners[device] = at
                return True
        for device in requests[at][1]:
            owner = owners[device]
            if owner not in visited and take(owner, visited):
                owners[device] = at
                return True
        return False

    return [sum(take(at, set()) for _ in range(count)) for at, (count, _) in enumerate(requests)]


def _charge(
    field: str, exactly: ExactDeviceRequest, source: DeviceSource, selected: SelectedDevices
) -> int | ClaimProblem:
    """Return what a request counts of one source, in base units of its resource."""
    devices, count = selected.different.values(), exactly.count
    subject = f"{source.kind} {source.name} of driver {source.driver}"
    if selected.matching < count:
        text = (
            f"insufficient matching devices for {subject}: "
            f"{selected.matching} device(s) match but {count} requested"
        )
        return ClaimProblem(field, _with_failure(text, selected), count - selected.matching)
    if source.kind == "counter":
        amounts = list(_counters(devices, source.name))
        if not amounts:
            return ClaimProblem(field, f"none of {selected.matching} matching devices consumes {subject}")
    else:
        capacities = [
            capacity
            for device in devices
            if (capacity := capacity_named(source.driver, device, source.name)) is not None
        ]
        if not capacities:
            return ClaimProblem(field, f"none of {selected.matching} matching devices has {subject}")
        requested = _requested(exactly, source)
        charged = [capacity_charge(capacity, requested) for capacity in capacities]
        amounts = [amount for amount in charged if amount is not None]
        if not amounts:
            largest = max(capacity.value for capacity in capacities)
            text = (
                f"{requested} of {subject} cannot be satisfied by any of {selected.matching} matching devices"
            )
            return ClaimProblem(field, f"{text}, of which the largest has {largest}")
    return min(max(base_units(source.resource, max(amounts)), 0) * max(count, 0), INT64_MAX)


def _counters(devices: Iterable[Device], name: str) -> Iterator[Quantity]:
    for device in devices:
        for consumption in device.consumes_counters:
            if name in consumption.counters:
                yield consumption.counters[name].value


def _requested(request: DeviceSubRequest, source: DeviceSource) -> Quantity | None:
    """Return what the claim requests of the capacity; its name may have the driver as its domain."""
    names = (source.name, f"{source.driver}/{source.name}", source.name.removeprefix(f"{source.driver}/"))
    return next(
        (request.capacity.requests[name] for name in names if name in request.capacity.requests), None
    )
