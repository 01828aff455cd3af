"""Equal values as one value: most pods of a cluster are alike, and a hundred thousand of them are in memory.

Only what was seen of late is remembered, which is enough: the pods of a gang come one after the other.  What
is forgotten is no longer shared with what comes later, and nothing else changes.
"""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

import msgspec

from quorate.api import codec

_REMEMBERED: Final = 4096
_NOTHING: Final[dict[str, Any]] = {}  # nobody changes what was decoded


def share_fields(holder: msgspec.Struct, types: Mapping[str, Any]) -> None:
    """Replace those fields of ``holder`` by equal ones that others have too; to be called as it is made.

    ``types`` are their types by name.  Of empty tuples there is one already; of empty mappings there is here.
    """
    for name, type_ in types.items():
        value = getattr(holder, name)
        if value:
            msgspec.structs.force_setattr(holder, name, _shared(type_, codec.encode(value)))
        elif isinstance(value, dict):
            msgspec.structs.force_setattr(holder, name, _NOTHING)


def shared_texts(texts: Mapping[str, str]) -> dict[str, str]:
    """The same for labels and annotations, of which at least the words are shared."""
    return _texts(tuple(texts.items()))


@lru_cache(maxsize=_REMEMBERED)
def _shared(type_: Any, content: bytes) -> Any:
    return codec.decode(type_, content)


@lru_cache(maxsize=_REMEMBERED)
def _texts(texts: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in texts}
