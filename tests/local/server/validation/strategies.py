"""The strategies of the built-in kinds, by resource and group."""

from quorate.local.objects.errors import group_resource
from quorate.local.server.registry.builtin import KINDS
from quorate.local.server.registry.kinds import Strategy

STRATEGIES: dict[str, Strategy] = {
    group_resource(kind.group, kind.plural): kind.strategy for kind in reversed(KINDS)
}
"""Of the preferred version."""
