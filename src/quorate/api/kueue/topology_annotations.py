"""Annotations of pod templates that request places in a topology, and the request that they make.

The meaning of the annotations and their precedence are Kueue's (v0.19).  A malformed value counts as absent:
``quorate.api.validation.topology`` reports it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.kueue.topology import PodSetTopologyRequest, SliceConstraint
from quorate.api.meta import Int32, Struct
from quorate.api.names.topology import (
    GROUP_NAME,
    PREFERRED,
    REQUIRED,
    SLICE_CONSTRAINTS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from quorate.api.syntax import parse_boolean, signed_int32

MAX_SLICE_LAYERS: Final = 3


class PodIndex(msgspec.Struct, frozen=True):
    """The labels by which a kind of job numbers the pods of a set; empty: it does not."""

    label: str = ""
    sub_group_label: str = ""
    sub_group_count: int | None = None


NO_INDEX: Final = PodIndex()


class _Constraint(Struct):
    topology: str = ""
    size: Int32 = 0


def parse_constraints(text: str) -> tuple[SliceConstraint, ...] | str:
    """Return the slice layers in a JSON list, outermost first, or why ``text`` is no such list.

    Absent fields of a layer are empty or 0, as in Go.
    """
    try:
        layers = codec.decode(tuple[_Constraint, ...] | None, text)  # type: ignore[arg-type]
    except (msgspec.DecodeError, ValueError) as error:
        return str(error)
    return tuple(SliceConstraint(topology=layer.topology, size=layer.size) for layer in layers or ())


def topology_request(
    annotations: Mapping[str, str], index: PodIndex = NO_INDEX, *, multi_layer: bool = True
) -> PodSetTopologyRequest | None:
    """Return the request of a pod set, or None if it has neither annotations nor indices.

    Of required, preferred and unconstrained the first counts.  ``multi_layer``: the gate
    TASMultiLayerTopology, without which slice constraints are ignored.
    """
    request = PodSetTopologyRequest(
        pod_index_label=index.label,
        sub_group_index_label=index.sub_group_label,
        sub_group_count=index.sub_group_count,
    )
    fields: dict[str, object] = {}
    if REQUIRED in annotations:
        fields["required"] = annotations[REQUIRED]
    elif PREFERRED in annotations:
        fields["preferred"] = annotations[PREFERRED]
    elif parse_boolean(annotations.get(UNCONSTRAINED, "")):
        fields["unconstrained"] = True  # "false" requests nothing
    fields |= _slice_fields(annotations, multi_layer=multi_layer)
    if GROUP_NAME in annotations and (REQUIRED in annotations or PREFERRED in annotations):
        fields["pod_set_group_name"] = annotations[GROUP_NAME]
    if not fields and index == NO_INDEX:
        return None
    return msgspec.structs.replace(request, **fields)


def _slice_fields(annotations: Mapping[str, str], *, multi_layer: bool) -> dict[str, object]:
    if multi_layer and SLICE_CONSTRAINTS in annotations:
        layers = parse_constraints(annotations[SLICE_CONSTRAINTS])
        return {} if isinstance(layers, str) else {"podset_slice_required_topology_constraints": layers}
    size = signed_int32(annotations.get(SLICE_SIZE, ""))
    if SLICE_LEVEL not in annotations or size is None:
        return {}
    return {"pod_set_slice_required_topology": annotations[SLICE_LEVEL], "pod_set_slice_size": size}
