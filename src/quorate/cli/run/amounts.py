"""Amounts of resources in words."""

from quorate.api.core import Resources


def in_words(resources: Resources) -> str:
    """``cpu 2, memory 4424Mi``, by name; ``nothing`` when there is none."""
    return ", ".join(f"{name} {resources[name]}" for name in sorted(resources)) or "nothing"


def plural(count: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
