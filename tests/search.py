"""The number of examples of a property: few in ordinary runs, many more in ``make search``."""

from typing import Final

from hypothesis import settings

ORDINARY: Final = 100  # the default of Hypothesis


def examples(few: int, *, steps: int = 50) -> settings:
    """Return settings with ``few`` examples in ordinary runs and at most ``steps`` stateful steps."""
    profile = settings()
    return settings(
        profile, max_examples=max(1, few * profile.max_examples // ORDINARY), stateful_step_count=steps
    )
