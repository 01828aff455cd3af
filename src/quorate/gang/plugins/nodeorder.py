"""Plugin ``nodeorder``: kube-scheduler's scores of nodes, each with its weight."""

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import NodeOrderArguments
from quorate.gang.policy import Policy
from quorate.gang.session import Session


def nodeorder(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, NodeOrderArguments), f"{entry.arguments} are not of nodeorder"
    return Policy(scores=entry.arguments)
