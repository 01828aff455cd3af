"""Cluster queues and cohorts by name, with their declared parents.

Cohorts may be declared in any order, name parents that are not declared, and form cycles.  The arithmetic of
``quota.tree`` never sees a cycle.
"""

from collections.abc import Mapping

from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Limits, Node, set_limits, set_parent


class QuotaTree:
    """All cluster queues and cohorts.

    A cohort exists as long as it is declared or a node names it as parent.  Cohorts on a cycle of declared
    parents are detached from their parents until the cycle is broken; meanwhile they and all nodes below them
    have a cycle.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        # The declared parent of each node that has one, even if a cycle keeps the node detached from it.
        self._parents: dict[Node, str] = {}
        self._declared: set[str] = set()  # cohorts that exist even if no node names them as parent
        self._cyclic: set[Node] = set()  # exactly the cohorts on a cycle of declared parents

    def put_queue(self, name: str, cohort: str, limits: Mapping[FlavorResource, Limits]) -> Node:
        """Create or update a cluster queue; ``cohort`` is empty if it has none."""
        node = self.queues.setdefault(name, Node(name))
        set_limits(node, limits)
        self._declare_parent(node, cohort)
        return node

    def remove_queue(self, name: str) -> None:
        node = self.queues.pop(name)
        assert not node.usage, f"cluster queue {name} is removed while {node.usage} is in use"
        self._declare_parent(node, "")

    def put_cohort(self, name: str, parent: str, limits: Mapping[FlavorResource, Limits]) -> Node:
        """Create or update a cohort; ``parent`` is empty for a root."""
        self._declared.add(name)
        node = self._cohort(name)
        set_limits(node, limits)
        self._declare_parent(node, parent)
        return node

    def remove_cohort(self, name: str) -> None:
        """Remove the declaration; while a node names the cohort it stays, without quota or parent."""
        self._declared.discard(name)
        node = self.cohorts[name]
        set_limits(node, {})
        self._declare_parent(node, "")
        self._drop_if_unused(name)

    @property
    def cyclic(self) -> frozenset[Node]:
        """The cohorts on a cycle of declared parents."""
        return frozenset(self._cyclic)

    def has_cycle(self, node: Node) -> bool:
        """Return True if the declared parents of ``node`` lead into a cycle."""
        return node.root in self._cyclic

    def cycle_above(self, node: Node) -> tuple[str, ...]:
        """Return the names of the cohorts on the cycle into which the declared parents of ``node`` lead.

        Return () if they lead into none.
        """
        if not self.has_cycle(node):
            return ()
        return tuple(sorted(cohort.name for cohort in self._cycle_through(node.root)))

    def _cohort(self, name: str) -> Node:
        return self.cohorts.setdefault(name, Node(name))

    def _declare_parent(self, node: Node, parent: str) -> None:
        before = self._parents.pop(node, "")
        if parent:
            self._cohort(parent)
            self._parents[node] = parent
        if before == parent:
            return
        self._detach(node)
        self._attach(node)
        if before:
            self._drop_if_unused(before)

    def _detach(self, node: Node) -> None:
        """Detach ``node`` from its parent, and attach the cohorts of a cycle that this breaks."""
        set_parent(node, None)
        if node not in self._cyclic:
            return
        freed = self._members_leading_to(node)
        self._cyclic.difference_update(freed, (node,))
        for cohort in freed:
            set_parent(cohort, self.cohorts[self._parents[cohort]])

    def _attach(self, node: Node) -> None:
        """Attach ``node`` to its declared parent, or detach all cohorts of a cycle that this closes."""
        name = self._parents.get(node)
        if name is None:
            return
        cycle = self._cycle_through(node)
        if not cycle:
            set_parent(node, self.cohorts[name])
            return
        for member in cycle:
            set_parent(member, None)
        self._cyclic.update(cycle)

    def _cycle_through(self, start: Node) -> list[Node]:
        """Return the cohorts on the cycle through ``start``, if there is one."""
        chain: dict[Node, None] = {}
        node: Node | None = start
        while node is not None and node not in chain:
            chain[node] = None
            node = self.cohorts.get(self._parents.get(node, ""))
        return list(chain) if node is start else []

    def _members_leading_to(self, node: Node) -> list[Node]:
        """Return the detached cohorts, except ``node``, of which the declared parents lead to it."""
        children: dict[str, list[Node]] = {}
        for member in self._cyclic:
            children.setdefault(self._parents.get(member, ""), []).append(member)
        leading = [node]
        for parent in leading:
            leading.extend(child for child in children.get(parent.name, ()) if child is not node)
        return leading[1:]

    def _drop_if_unused(self, name: str) -> None:
        node = self.cohorts.get(name)
        if node is None or name in self._declared or node.children:
            return
        if any(self._parents[cohort] == name for cohort in self._cyclic):  # it has a detached child
            return
        del self.cohorts[name]
