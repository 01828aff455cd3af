"""The rules of the built-in kinds, by resource; a kind that is not here only has a shape."""

from quorate.local.server.kinds import Rules

RULES: dict[str, Rules] = {}
