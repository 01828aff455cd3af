"""Plugin ``binpack``: the fuller a node will be, the better."""

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import BinpackArguments
from quorate.gang.policy import Policy
from quorate.gang.session import Session


def binpack(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, BinpackArguments), f"{entry.arguments} are not of binpack"
    return Policy(scores=entry.arguments)
