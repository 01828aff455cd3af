"""What the resource claims of a pod, as they are now, require of its node.

Source: kube-scheduler's plugin DynamicResources (KEP-4381, KEP-4816), with its messages.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quorate.api import native_groups
from quorate.api.core import NodeSelector
from quorate.api.core.device_claims import (
    ALL,
    AllocatedDevice,
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.placement import failures
from quorate.placement.claim_requirements import (
    NO_DEVICES,
    ClaimDemand,
    DeviceDemand,
    DeviceId,
    SameAttribute,
    Wanted,
)
from quorate.placement.failures import FilterFailure
from quorate.placement.filters.devices.quantities import milli_of
from quorate.placement.filters.devices.selectors import SelectorProblem, compiled

MAX_CONSUMERS: Final = 256  # pods that one claim may be reserved for


def claim_keys(pod: Pod) -> Iterator[Key | str]:
    """Yield the key of each claim of ``pod``; of a claim that does not exist yet, its name in the pod."""
    created = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for claim in pod.spec.resource_claims:
        name = claim.resource_claim_name or created.get(claim.name, "")
        if name is None:
            continue  # the controller found that the pod needs none
        yield Key(pod.metadata.namespace, name) if name else claim.name


def unallocated_claims(pod: Pod, claims: Mapping[Key, ResourceClaim]) -> Iterator[ResourceClaim]:
    """Yield the existing claims of ``pod`` that have no devices, in the order of ``DeviceDemand.claims``."""
    for key in claim_keys(pod):
        claim = claims.get(key) if isinstance(key, Key) else None
        if claim is not None and claim.status.allocation is None:
            yield claim


def device_demand(
    pod: Pod, claims: Mapping[Key, ResourceClaim], classes: Mapping[str, DeviceClass]
) -> DeviceDemand:
    """Return what the claims of ``pod``, as they are now, require of its node."""
    if not pod.spec.resource_claims:
        return NO_DEVICES
    nodes: list[NodeSelector] = []
    held: list[DeviceId] = []
    wanted: list[ClaimDemand] = []
    named = {claim.resource_claim_name for claim in pod.spec.resource_claims}
    for key in claim_keys(pod):
        if not isinstance(key, Key):
            return DeviceDemand(failure=failures.device_claim_not_created(key))
        claim = claims.get(key)
        if claim is None:
            return DeviceDemand(failure=failures.device_claim_not_found(key.name))
        is_shared = key.name in named or _is_of_group(claim, pod)
        if problem := _unusable(claim, pod, is_shared=is_shared):
            return DeviceDemand(failure=problem)
        allocation = claim.status.allocation
        if allocation is not None:
            if allocation.node_selector is not None:
                nodes.append(allocation.node_selector)
            held.extend(allocated_devices(claim))
            held.extend(share for share, _ in allocated_shares(claim))
            continue
        demand = _claim_demand(claim, classes, key.name if is_shared else "")
        if isinstance(demand, FilterFailure):
            return DeviceDemand(failure=demand)
        wanted.append(demand)
    return DeviceDemand(None, tuple(nodes), tuple(sorted(held)), tuple(wanted))


def allocated_devices(claim: ResourceClaim) -> Iterator[DeviceId]:
    """Yield the devices that no other claim can have."""
    for device in _results(claim):
        if not device.share_id:
            yield DeviceId(device.driver, device.pool, device.device)


def allocated_shares(claim: ResourceClaim) -> Iterator[tuple[DeviceId, Mapping[str, Quantity]]]:
    """Yield each share of a device that the claim has, and the amount that it takes of each capacity.

    The name of a share is the name of its device, a slash, and the id of the share.
    """
    for device in _results(claim):
        if device.share_id:
            share = DeviceId(device.driver, device.pool, f"{device.device}/{device.share_id}")
            yield share, device.consumed_capacity


def device_of(share: DeviceId) -> DeviceId:
    """Return the device of a share; a device has itself."""
    return share._replace(device=share.device.partition("/")[0])


def _results(claim: ResourceClaim) -> Iterator[AllocatedDevice]:
    allocation = claim.status.allocation
    for device in () if allocation is None else allocation.devices.results:
        if not device.admin_access:
            yield device


def _is_of_group(claim: ResourceClaim, pod: Pod) -> bool:
    """Return True if the claim was made for the pod group of Kubernetes to which the pod belongs."""
    owner, group = claim.metadata.controller, pod.spec.scheduling_group
    return (
        owner is not None
        and group is not None
        and (owner.api_version.partition("/")[0], owner.kind) == (native_groups.GROUP, "PodGroup")
        and owner.name == group.pod_group_name
    )


def _unusable(claim: ResourceClaim, pod: Pod, *, is_shared: bool) -> FilterFailure | None:
    name, owner = claim.metadata.name, claim.metadata.controller
    if claim.metadata.deletion_timestamp is not None:
        return failures.device_claim_being_deleted(name)
    if not is_shared and (owner is None or owner.uid != pod.metadata.uid):
        return failures.device_claim_of_another_pod(name)
    consumers = claim.status.reserved_for
    if len(consumers) >= MAX_CONSUMERS and all(consumer.uid != pod.metadata.uid for consumer in consumers):
        return failures.device_claim_in_use(name, MAX_CONSUMERS)
    return None


def _claim_demand(
    claim: ResourceClaim, classes: Mapping[str, DeviceClass], shared: str
) -> ClaimDemand | FilterFailure:
    requests: list[tuple[Wanted, ...]] = []
    for request in claim.spec.devices.requests:
        alternatives: tuple[DeviceSubRequest, ...] = request.first_available
        if request.exactly is not None:
            alternatives = (request.exactly,)
        wanted: list[Wanted] = []
        for alternative in alternatives:
            name = f"{request.name}/{alternative.name}" if alternative.name else request.name
            one = _wanted(name, alternative, classes)
            if isinstance(one, str):
                return failures.device_request_not_evaluated(claim.metadata.name, name, one)
            wanted.append(one)
        if not wanted:
            problem = "has neither exactly nor firstAvailable"
            return failures.device_request_not_evaluated(claim.metadata.name, request.name, problem)
        requests.append(tuple(wanted))
    constraints = claim.spec.devices.constraints
    if any(not constraint.match_attribute for constraint in constraints):
        problem = "a constraint other than matchAttribute is not evaluated"
        return failures.device_request_not_evaluated(claim.metadata.name, "", problem)
    same = (
        SameAttribute(frozenset(constraint.requests), constraint.match_attribute)
        for constraint in constraints
    )
    return ClaimDemand(shared, tuple(requests), tuple(same))


def _wanted(name: str, request: DeviceSubRequest, classes: Mapping[str, DeviceClass]) -> Wanted | str:
    """Return a request as devices are chosen for it, or why it is not evaluated."""
    device_class = classes.get(request.device_class_name)
    if device_class is None:
        return f"device class {request.device_class_name} does not exist"
    expressions = tuple(selector_expressions((*device_class.spec.selectors, *request.selectors)))
    for text in expressions:
        if isinstance(problem := compiled(text), SelectorProblem):
            return f"selector {text:.80}: {problem.message}"
    return Wanted(
        name,
        request.device_class_name,
        expressions,
        0 if request.allocation_mode == ALL else max(request.count, 1),
        request.tolerations,
        isinstance(request, ExactDeviceRequest) and request.admin_access,
        tuple(sorted((name, milli_of(quantity)) for name, quantity in request.capacity.requests.items())),
    )


def selector_expressions(selectors: Iterable[DeviceSelector]) -> Iterator[str]:
    """Yield the CEL expression of each selector that has one."""
    for selector in selectors:
        if selector.cel is not None:
            yield selector.cel.expression
