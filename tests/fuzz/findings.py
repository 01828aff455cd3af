"""Findings of a run, grouped by their cause, each with the attack that probably led to it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fuzz.requests import Attack

_OBJECT = re.compile(r"z(\d+)-(\d+)")


@dataclass
class Finding:
    kind: str  # traceback, block, restart, server error, probe, memory, difference
    cause: str
    detail: str
    attacks: tuple[int, ...]  # numbers: the one that the detail names, or those before it
    count: int = 1
    worst: float = 0.0


@dataclass
class Findings:
    seed: int
    recent: list[Attack] = field(default_factory=list)  # the latest attacks, oldest first
    by_cause: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(
        self, kind: str, cause: str, detail: str, worst: float = 0.0, attacks: Iterable[int] = ()
    ) -> bool:
        """Add an occurrence; return True if its cause is new."""
        found = self.by_cause.get((kind, cause))
        if found is None:
            suspects = tuple(attacks) or self._suspects(detail)
            self.by_cause[kind, cause] = Finding(kind, cause, detail, suspects, worst=worst)
            return True
        found.count += 1
        if worst > found.worst:
            found.worst, found.detail = worst, detail
            found.attacks = tuple(attacks) or self._suspects(detail)
        return False

    def _suspects(self, detail: str) -> tuple[int, ...]:
        named = dict.fromkeys(
            int(number) for seed, number in _OBJECT.findall(detail) if int(seed) == self.seed
        )
        return tuple(named)[:3] or tuple(attack.number for attack in self.recent[-10:])

    @property
    def all(self) -> list[Finding]:
        return sorted(self.by_cause.values(), key=lambda found: (found.kind, -found.count))
