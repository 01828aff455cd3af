"""The outcome of one scenario: what was measured, and findings."""

from collections.abc import Callable
from dataclasses import dataclass, field

Show = Callable[[int], None]  # called with the number of steps that are done


@dataclass
class Outcome:
    scenario: str
    measures: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
