"""Validation of topology requests: annotations of pod templates, and fields of Workloads.

Rules and texts are those of Kueue's webhooks (v0.20).  The order of the levels of slice layers is not checked
here, because the topology is known only once a flavor is assigned.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from quorate.api.configuration.feature_gates import DEFAULT_TOPOLOGY_GATES, TopologyGates
from quorate.api.findings import Finding, child_path
from quorate.api.kueue.topology import PodSetTopologyRequest, SliceConstraint
from quorate.api.kueue.topology_annotations import MAX_SLICE_LAYERS, parse_constraints
from quorate.api.names.topology import (
    GROUP_NAME,
    INDEX_OFFSET,
    POD_SET_PREFIX,
    PREFERRED,
    REQUIRED,
    SLICE_CONSTRAINTS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from quorate.api.syntax import is_qualified_name, parse_boolean, signed_int32
from quorate.api.validation.fields import Findings

_MODES: Final = (REQUIRED, PREFERRED, UNCONSTRAINED)
_LEVEL_RULE: Final = "is not the key of a label (write name or example.com/name)"
_NO_SIZE: Final = "must be greater than or equal to 1"
_MAX_UINT64: Final = 2**64 - 1


class AnnotatedPodSet(msgspec.Struct, frozen=True):
    """The annotations of a pod set, with the path at which the job has them."""

    path: str
    count: int | None  # number of pods; None: unknown here
    annotations: Mapping[str, str]


def added_findings(old: Sequence[Finding], new: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that are not in ``old``: an object that was invalid must stay editable."""
    return tuple(finding for finding in new if finding not in old)


def annotated_topology_findings(
    pod_set: AnnotatedPodSet, gates: TopologyGates = DEFAULT_TOPOLOGY_GATES
) -> Findings:
    """Validate the topology request of one pod set."""
    given = pod_set.annotations
    if INDEX_OFFSET in given:
        yield from _index_offset(pod_set)
    if not any(key.startswith(POD_SET_PREFIX) for key in given):
        return
    modes = [key for key in _MODES if key in given]
    if len(modes) > 1:
        listed = ", ".join(f'"{key}"' for key in _MODES)
        rule = f"must not contain more than one topology annotation: [{listed}]"
        yield Finding(pod_set.path, [key.removeprefix(POD_SET_PREFIX) for key in modes], rule)
    for key in (REQUIRED, PREFERRED, SLICE_LEVEL):
        if key in given and not is_qualified_name(given[key]):
            yield Finding(child_path(pod_set.path, key), given[key], _LEVEL_RULE)
    if GROUP_NAME in given:
        yield from _group_name(pod_set)
    if UNCONSTRAINED in given:
        path, is_true = child_path(pod_set.path, UNCONSTRAINED), parse_boolean(given[UNCONSTRAINED])
        if is_true is None:
            yield Finding(path, given[UNCONSTRAINED], "must be a boolean value")
        elif not is_true and gates.reject_false_unconstrained:
            yield Finding(path, given[UNCONSTRAINED], 'must be "true" (or leave the annotation out)')
    yield from _slice_size(pod_set)
    if SLICE_CONSTRAINTS in given:
        yield from _constraints(pod_set, multi_layer=gates.multi_layer)


def _excluded(pod_set: AnnotatedPodSet, key: str, others: Iterable[str]) -> Findings:
    """Refuse annotation ``key`` beside each of ``others``."""
    for other in others:
        if other in pod_set.annotations:
            rule = f"may not be set when '{other}' is specified"
            yield Finding(child_path(pod_set.path, key), pod_set.annotations[key], rule)


def _index_offset(pod_set: AnnotatedPodSet) -> Findings:
    """Validate the number of the first pod; in a group the leader is counted anyway."""
    path, text = child_path(pod_set.path, INDEX_OFFSET), pod_set.annotations[INDEX_OFFSET]
    offset = signed_int32(text)
    if offset is None or offset < 0:
        yield Finding(path, text, "must be a non-negative integer")
    yield from _excluded(pod_set, INDEX_OFFSET, (GROUP_NAME,))


def _group_name(pod_set: AnnotatedPodSet) -> Findings:
    name = pod_set.annotations[GROUP_NAME]
    path = child_path(pod_set.path, GROUP_NAME)
    # Numbers identify pod sets without a group.
    if name.isascii() and name.isdigit() and (len(name) < 20 or int(name[:40]) <= _MAX_UINT64):
        yield Finding(path, name, "must not be a number")
    if REQUIRED not in pod_set.annotations and PREFERRED not in pod_set.annotations:
        rule = f"may not be set when neither '{PREFERRED}' nor '{REQUIRED}' is specified"
        yield Finding(path, name, rule)


def _slice_size(pod_set: AnnotatedPodSet) -> Findings:
    given, path = pod_set.annotations, child_path(pod_set.path, SLICE_SIZE)
    if SLICE_SIZE not in given:
        if SLICE_LEVEL in given:
            yield Finding(path, None, f"must be set when '{SLICE_LEVEL}' is specified")
        return
    text = given[SLICE_SIZE]
    size = signed_int32(text)
    if size is None:
        yield Finding(path, text, "must be a numeric value")
    elif size < 1:
        yield Finding(path, text, _NO_SIZE)
    elif pod_set.count is not None and size > pod_set.count:
        yield Finding(path, text, f"must not be greater than pod set count {pod_set.count}")
    if SLICE_LEVEL not in given:
        yield Finding(path, text, f"may not be set when '{SLICE_LEVEL}' is not specified")


def _constraints(pod_set: AnnotatedPodSet, *, multi_layer: bool) -> Findings:
    path, text = child_path(pod_set.path, SLICE_CONSTRAINTS), pod_set.annotations[SLICE_CONSTRAINTS]
    if not multi_layer:
        yield Finding(
            path, text, "the TASMultiLayerTopology feature gate must be enabled to use this annotation"
        )
        return
    yield from _excluded(pod_set, SLICE_CONSTRAINTS, (SLICE_LEVEL, SLICE_SIZE))
    layers = parse_constraints(text)
    if isinstance(layers, str):
        yield Finding(path, text, f"must be a valid JSON array: {layers}")
    elif not 1 <= len(layers) <= MAX_SLICE_LAYERS:
        rule = f"topology constraints must contain between 1 and {MAX_SLICE_LAYERS} entries"
        yield Finding(path, text, rule)
    else:
        yield from _layers(path, layers)
        if pod_set.count is not None and layers[0].size > pod_set.count:
            yield Finding(path, layers[0].size, f"must not be greater than pod set count {pod_set.count}")


def _layers(path: str, layers: Sequence[SliceConstraint]) -> Findings:
    for at, layer in enumerate(layers):
        if not is_qualified_name(layer.topology):
            yield Finding(f"{path}[{at}].topology", layer.topology, _LEVEL_RULE)
        if layer.size < 1:
            yield Finding(f"{path}[{at}].size", layer.size, _NO_SIZE)
        first = next(index for index, other in enumerate(layers) if other.topology == layer.topology)
        if first != at:
            yield Finding(f"{path}[{at}].topology", layer.topology, f"is a duplicate (also at index {first})")
        parent = layers[at - 1].size if at else 0
        if layer.size > 0 and parent % layer.size:
            rule = f"must evenly divide the parent layer size {parent}"
            yield Finding(f"{path}[{at}].size", layer.size, rule)


def pod_set_group_findings(pod_sets: Sequence[AnnotatedPodSet]) -> Findings:
    """Validate that pod sets with one group name are a leader and its workers, for the same level."""
    groups: dict[str, list[AnnotatedPodSet]] = {}
    for pod_set in pod_sets:
        given = pod_set.annotations
        if GROUP_NAME in given and (REQUIRED in given or PREFERRED in given):
            groups.setdefault(given[GROUP_NAME], []).append(pod_set)
    for name, members in groups.items():
        if len(members) == 2:
            yield from _pair(name, members[0], members[1])
            continue
        rule = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
        for member in members:
            yield Finding(child_path(member.path, GROUP_NAME), name, rule)


def _pair(name: str, one: AnnotatedPodSet, other: AnnotatedPodSet) -> Findings:
    if one.count is not None and other.count is not None and 1 not in (one.count, other.count):
        rule = (
            "can only define groups where at least one pod set has only 1 replica, got: "
            f"{one.count} replica(s) and {other.count} replica(s) in the group"
        )
        for member in (one, other):
            yield Finding(child_path(member.path, GROUP_NAME), name, rule)
    if _level(one) != _level(other):
        for member, partner in ((one, other), (other, one)):
            rule = (
                f"must specify '{REQUIRED}' or '{PREFERRED}' topology consistent with '{partner.path}' "
                f"in group '{name}'"
            )
            yield Finding(member.path, _level(member)[1], rule)


def _level(pod_set: AnnotatedPodSet) -> tuple[str, str]:
    """Return the annotation that counts, and its value."""
    key = REQUIRED if REQUIRED in pod_set.annotations else PREFERRED
    return key, pod_set.annotations[key]


def topology_request_findings(path: str, request: PodSetTopologyRequest) -> Findings:
    """Validate the slices of a stored request (gate TASValidateWorkloadSliceSize)."""
    level, size = request.pod_set_slice_required_topology, request.pod_set_slice_size
    if level and size is None:
        rule = "must be set when podSetSliceRequiredTopology is specified"
        yield Finding(f"{path}.podSetSliceSize", None, rule)
    if level and size is not None and size <= 0:
        yield Finding(f"{path}.podSetSliceSize", size, "must be greater than 0")
    if not level and size is not None:
        rule = "may not be set when podSetSliceRequiredTopology is not specified"
        yield Finding(f"{path}.podSetSliceSize", size, rule)
    for at, layer in enumerate(request.podset_slice_required_topology_constraints):
        if layer.size <= 0:
            where = f"{path}.podsetSliceRequiredTopologyConstraints[{at}].size"
            yield Finding(where, layer.size, "must be greater than 0")
