"""The priority classes of the cluster, by name."""

from quorate.api.core import PriorityClass


class PriorityClasses:
    def __init__(self) -> None:
        self._by_name: dict[str, PriorityClass] = {}

    def put(self, cls: PriorityClass) -> None:
        self._by_name[cls.metadata.name] = cls

    def remove(self, name: str) -> None:
        self._by_name.pop(name, None)

    def value(self, name: str) -> int:
        """Return the value of the class ``name``, else of the cluster's default class, else 0."""
        if name in self._by_name:
            return self._by_name[name].value
        defaults = (cls for cls in self._by_name.values() if cls.global_default)
        return max((cls.value for cls in defaults), default=0)

    def may_preempt(self, name: str) -> bool:
        """Return True if pods with the class ``name`` may preempt, as without a class."""
        cls = self._by_name.get(name)
        return cls is None or cls.preemption_policy != "Never"
