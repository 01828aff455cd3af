"""How many examples a law is tried on: the same few in every run, many more in ``make search``."""

from typing import Final

from hypothesis import settings

ORDINARY: Final = 100  # the default of Hypothesis


def examples(few: int, *, steps: int = 50) -> settings:
    """``few`` in ordinary runs; ``steps`` at most in each history of a stateful machine."""
    profile = settings()
    return settings(profile, max_examples=few * profile.max_examples // ORDINARY, stateful_step_count=steps)
