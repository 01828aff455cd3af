"""Volcano's field ``networkTopologyDiscovery``: where HyperNodes are discovered.

The fields are those of Volcano's ConfigMap (1.15), so that its text can be used.  Only the source ``label``
is supported: levels of node labels.
"""

from typing import Any, Final

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.syntax import is_qualified_name

LABEL: Final = "label"
MAX_NAME: Final = 20  # of a topology type, as in Volcano


class TopologyType(msgspec.Struct, frozen=True):
    """One hierarchy of HyperNodes: label keys of its tiers, the lowest tier (1) first."""

    name: str
    levels: tuple[str, ...]


def decode_discovery(field: d.Field) -> tuple[TopologyType, ...]:
    """Return the hierarchies of the source ``label``; none if it is not enabled."""
    enabled = d.list_of(d.section(_source))(field)
    if len(enabled) > 1:
        raise d.InvalidValue("enables the source label more than once")
    return enabled[0] if enabled else ()


def _source(fields: d.Section) -> tuple[TopologyType, ...] | None:
    source = fields.take("source", d.text, "")
    enabled = fields.take("enabled", d.boolean, False)
    fields.take("interval", d.duration(), 0.0)
    fields.take("credentials", _anything, None)
    if source != LABEL:
        fields.take("config", _anything, None)
        if enabled:
            fields.at("source").reject("is not supported (write label, or enabled: false)")
        return None
    types = fields.take("config", d.section(_label_config), ())
    return types if enabled else None


def _anything(field: d.Field) -> Any:
    return field.value


def _label_config(fields: d.Section) -> tuple[TopologyType, ...]:
    types = fields.take("networkTopologyTypes", d.map_of(_levels), {})
    for name in types:
        if len(name) > MAX_NAME:
            fields.at("networkTopologyTypes").entry(name).reject(
                f"has a name of more than {MAX_NAME} characters"
            )
    return tuple(TopologyType(name, levels) for name, levels in sorted(types.items()))


def _levels(field: d.Field) -> tuple[str, ...]:
    """Return the label keys from the lowest tier on; the last one given stands for the nodes themselves."""
    keys = d.list_of(d.section(_label), minimum=2)(field)
    if len(set(keys)) < len(keys):
        raise d.InvalidValue("names a label twice")
    return keys[-2::-1]


def _label(fields: d.Section) -> str:
    return fields.take("nodeLabel", d.text_matching(is_qualified_name, "the key of a label"), "")
