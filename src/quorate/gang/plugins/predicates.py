"""Plugin ``predicates``: which constraints between pods and nodes are looked at.

Without it only room counts, and that a node is ready.
"""

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.gang.policy import Policy
from quorate.gang.session import Session


def predicates(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, PredicateArguments), f"{entry.arguments} are not of predicates"
    return Policy(predicates=entry.arguments)
