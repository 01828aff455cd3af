"""Simulation of usage as if some reservations ended, or as if one more workload ran."""

from quorate.queueing.cluster_queue import Reservation
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.tree import Node


class UsageSimulation:
    """Changes of usage that are undone when the ``with`` block ends, also by an exception.

    Usage is a plain sum, so the order in which changes are undone does not matter.
    """

    def __init__(self, *, counts_places: bool = True) -> None:
        """``counts_places``: places of removed reservations are free at once, else after ``count_places``."""
        self._counts_places = counts_places
        self._removed: dict[Reservation, Node] = {}  # with the node that counted it
        self._without_places: dict[Reservation, None] = {}  # those of which the places are free
        self._added: list[tuple[Node, Usage]] = []

    def __enter__(self) -> "UsageSimulation":
        return self

    def __exit__(self, *exc: object) -> None:
        for reservation, node in self._removed.items():
            tree.add_usage(node, reservation.usage)
        for reservation in self._without_places:
            reservation.places.count(1)
        for node, usage in self._added:
            tree.remove_usage(node, usage)

    def remove(self, reservation: Reservation, node: Node) -> None:
        """Remove the usage of ``reservation``, counted at ``node``; a second call changes nothing."""
        if reservation not in self._removed:
            self._removed[reservation] = node
            tree.remove_usage(node, reservation.usage)
            if self._counts_places and reservation.places.all:
                self._free_places(reservation)

    def restore(self, reservation: Reservation) -> None:
        """Add the usage of a removed reservation again."""
        tree.add_usage(self._removed.pop(reservation), reservation.usage)
        if self._counts_places and reservation in self._without_places:
            self._take_places(reservation)

    def count_places(self) -> None:
        """Free the places of the reservations that are removed now, and of no others."""
        for reservation in [
            reservation for reservation in self._without_places if reservation not in self._removed
        ]:
            self._take_places(reservation)
        for reservation in self._removed:
            if reservation.places.all and reservation not in self._without_places:
                self._free_places(reservation)

    def _free_places(self, reservation: Reservation) -> None:
        self._without_places[reservation] = None
        reservation.places.count(-1)

    def _take_places(self, reservation: Reservation) -> None:
        del self._without_places[reservation]
        reservation.places.count(1)

    def add(self, node: Node, usage: Usage) -> None:
        self._added.append((node, usage))
        tree.add_usage(node, usage)
