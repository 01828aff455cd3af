"""Decoders of what descriptions of nodes have in common: pool names and taints."""

from collections.abc import Sequence
from typing import Final

from quorate.api.core import Taint
from quorate.api.decoding.strict import InvalidValue, Section, choice, label_value, text_matching
from quorate.api.syntax import is_qualified_name

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_key = text_matching(is_qualified_name, "the key of a label or taint (write name or example.com/name)")


def taint(fields: Section) -> Taint:
    """Decode a taint; ``key`` and ``effect`` are required."""
    fields.require("key", "effect", hint="write key: example.com/gpu, effect: NoSchedule")
    return Taint(
        key=fields.take("key", _key, ""),
        effect=fields.take("effect", choice(_EFFECTS), _EFFECTS[0]),
        value=fields.take("value", label_value, ""),
    )


def check_pool_names(names: Sequence[str]) -> None:
    """Raise ``InvalidValue`` if two pools have the same name."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(f"has two pools named {name} (give each a name of its own)")
