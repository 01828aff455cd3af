"""The support tables of ``docs/tasks/migrate-from-volcano.md`` match the code; its file is valid."""

import re
from pathlib import Path

from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.api.scheduler_configuration.actions import ACTIONS, GANG_ACTIONS, NO_OP_ACTION
from quorate.api.scheduler_configuration.plugins import (
    PLUGIN_DECODERS,
    UNSUPPORTED_FILTERS,
    UNSUPPORTED_SCORERS,
)

PAGE = (Path(__file__).parents[2] / "docs" / "tasks" / "migrate-from-volcano.md").read_text()


def named(row: str, column: int) -> list[str]:
    """Return the code spans in a cell of the row with this start, without those in brackets."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {row} |"))
    return re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", line.split("|")[column + 1]))


def test_the_page_lists_supported_and_unsupported_fields() -> None:
    assert named("actions", 1) == [*ACTIONS, *GANG_ACTIONS]
    assert sorted(named("actions", 2)) == [NO_OP_ACTION]
    assert named("plugins", 1) == sorted(PLUGIN_DECODERS)
    assert named("plugins that are refused", 2) == sorted(UNSUPPORTED_FILTERS)
    assert named("plugins that are ignored", 2) == sorted(UNSUPPORTED_SCORERS)


def test_the_configuration_for_a_gradual_migration() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    loaded = load_scheduler_configuration(text)
    assert loaded.warnings == ()
    assert loaded.configuration.profile == "design"
    assert loaded.configuration.enqueue.inqueue_timeout_s is None
