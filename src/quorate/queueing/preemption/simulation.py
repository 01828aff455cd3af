"""Trying out what the world would be without some workloads, or with one more."""

from types import TracebackType

from quorate.queueing.cluster_queue import Reservation
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.tree import Node


class UsageSimulation:
    """Changes of usage that are undone when the ``with`` block is left, by any road.

    Usage is a plain sum, so the order of undoing does not matter, and what was moved twice is restored
    exactly.
    """

    def __init__(self) -> None:
        self._gone: dict[Reservation, Node] = {}  # taken out of the usage of the node
        self._added: list[tuple[Node, Usage]] = []

    def __enter__(self) -> "UsageSimulation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reservation, node in self._gone.items():
            tree.add_usage(node, reservation.usage)
        for node, usage in self._added:
            tree.remove_usage(node, usage)

    def remove(self, reservation: Reservation, node: Node) -> None:
        """As if ``reservation``, counted at ``node``, had ended; a second time changes nothing."""
        if reservation not in self._gone:
            self._gone[reservation] = node
            tree.remove_usage(node, reservation.usage)

    def restore(self, reservation: Reservation) -> None:
        tree.add_usage(self._gone.pop(reservation), reservation.usage)

    def add(self, node: Node, usage: Usage) -> None:
        self._added.append((node, usage))
        tree.add_usage(node, usage)
