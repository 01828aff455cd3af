"""Cluster queues and cohorts by name, and the edges between them as administrators declare them.

Declarations may be in any order, name cohorts that nobody declares, and form loops; the arithmetic of
``quota.tree`` sees none of that.
"""

from collections.abc import Mapping

from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Limits, Node, set_limits, set_parent


class QuotaTree:
    """All cluster queues and cohorts by name, and the edges between them as declared.

    A cohort exists as long as it is declared or somebody names it as parent.  Cohorts whose declared
    parents form a loop keep their places but lose their parents until the loop is gone: all below them are
    ``is_looped``, and the arithmetic never runs in circles.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        # The declared parent of each node that has one, whether or not a loop forbids to follow it.
        self._parents: dict[Node, str] = {}
        self._declared: set[str] = set()  # cohorts that exist even while nobody names them
        self._looped: set[Node] = set()  # exactly the cohorts on a loop of declared parents

    def put_queue(self, name: str, cohort: str, limits: Mapping[FlavorResource, Limits]) -> Node:
        """Create or change a cluster queue; ``cohort`` is empty for none."""
        node = self.queues.setdefault(name, Node(name))
        set_limits(node, limits)
        self._declare_parent(node, cohort)
        return node

    def remove_queue(self, name: str) -> None:
        node = self.queues.pop(name)
        assert not node.usage, f"cluster queue {name} is removed while {node.usage} is in use"
        self._declare_parent(node, "")

    def put_cohort(self, name: str, parent: str, limits: Mapping[FlavorResource, Limits]) -> Node:
        """Create or change a cohort; ``parent`` is empty for a root."""
        self._declared.add(name)
        node = self._cohort(name)
        set_limits(node, limits)
        self._declare_parent(node, parent)
        return node

    def remove_cohort(self, name: str) -> None:
        """Forget the declaration; while somebody names the cohort it stays, without quota or parent."""
        self._declared.discard(name)
        node = self.cohorts[name]
        set_limits(node, {})
        self._declare_parent(node, "")
        self._drop_if_unused(name)

    @property
    def looped(self) -> frozenset[Node]:
        """The cohorts whose declared parents lead back to themselves."""
        return frozenset(self._looped)

    def is_looped(self, node: Node) -> bool:
        """Whether following the declared parents from ``node`` never ends."""
        return node.root in self._looped

    def _cohort(self, name: str) -> Node:
        return self.cohorts.setdefault(name, Node(name))

    def _declare_parent(self, node: Node, parent: str) -> None:
        before = self._parents.pop(node, "")
        if parent:
            self._cohort(parent)
            self._parents[node] = parent
        if before == parent:
            return
        self._untie(node)
        self._tie(node)
        if before:
            self._drop_if_unused(before)

    def _untie(self, node: Node) -> None:
        """Take ``node`` from its parent; a loop that went through it ends, and its cohorts are tied again."""
        set_parent(node, None)
        if node not in self._looped:
            return
        once_looped = [other for other in self._looped if other is not node and self._reaches(other, node)]
        self._looped.difference_update(once_looped, (node,))
        for other in once_looped:
            set_parent(other, self.cohorts[self._parents[other]])

    def _tie(self, node: Node) -> None:
        """Follow the declared parent of ``node``, unless that closes a loop, which unties all on it."""
        name = self._parents.get(node)
        if name is None:
            return
        loop = self._loop_through(node)
        if not loop:
            set_parent(node, self.cohorts[name])
            return
        for member in loop:
            set_parent(member, None)
        self._looped.update(loop)

    def _loop_through(self, start: Node) -> list[Node]:
        """The cohorts on the loop of declared parents that ``start`` is on; empty if it is on none."""
        chain: dict[Node, None] = {}
        node: Node | None = start
        while node is not None and node not in chain:
            chain[node] = None
            node = self.cohorts.get(self._parents.get(node, ""))
        return list(chain) if node is start else []

    def _reaches(self, node: Node, goal: Node) -> bool:
        """Whether declared parents lead from ``node`` to ``goal``."""
        seen: set[Node] = set()
        here: Node | None = node
        while here is not None and here not in seen:
            if here is goal:
                return True
            seen.add(here)
            here = self.cohorts.get(self._parents.get(here, ""))
        return False

    def _drop_if_unused(self, name: str) -> None:
        node = self.cohorts.get(name)
        if node is None or name in self._declared or node.children:
            return
        if any(self._parents[looped] == name for looped in self._looped):  # it is named, but not tied
            return
        del self.cohorts[name]
