"""The reference page of the scheduler's configuration matches the code, including messages."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import pytest

from quorate.api.decoding.lenient import Arguments
from quorate.api.decoding.strict import Decoder, Field, InvalidConfiguration, decode_context
from quorate.api.scheduler_configuration import default_scheduler_configuration, load_scheduler_configuration
from quorate.api.scheduler_configuration.actions import (
    ACTIONS,
    GANG_ACTIONS,
    decode_allocate_arguments,
    decode_backfill_arguments,
    decode_enqueue_arguments,
    decode_gang_preempt_arguments,
    decode_gang_reclaim_arguments,
    decode_preempt_arguments,
    decode_reclaim_arguments,
)
from quorate.api.scheduler_configuration.plugins import (
    ENABLE_FIELDS,
    PLUGIN_DECODERS,
    UNSUPPORTED_FILTERS,
    UNSUPPORTED_SCORERS,
)

T = TypeVar("T")
U = TypeVar("U")
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "scheduler-configuration.md").read_text(
    encoding="utf-8"
)
READERS: Final[Mapping[str, Callable[[Arguments], object]]] = {
    "enqueue": lambda given: decode_enqueue_arguments(given, None),
    "allocate": decode_allocate_arguments,
    "preempt": decode_preempt_arguments,
    "reclaim": decode_reclaim_arguments,
    "backfill": decode_backfill_arguments,
    "gangpreempt": decode_gang_preempt_arguments,
    "gangreclaim": decode_gang_reclaim_arguments,
}


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def rows(heading: str) -> list[tuple[str, ...]]:
    """Return the first cell of each row that starts with code."""
    lines = [line for line in section(heading).splitlines() if line.startswith("| `")]
    return [tuple(re.findall(r"\| `([^`]+)`(?= )", line)) for line in lines]


class _RecordingArguments(Arguments):
    """Arguments that are all absent, and that record which names were read."""

    def __init__(self) -> None:
        super().__init__(Field(decode_context("{}", ""), "", {}))
        self.read: list[str] = []

    def take(self, name: str, reader: Decoder[T], default: U) -> T | U:
        self.read.append(name)
        return super().take(name, reader, default)


def known_arguments(readers: Mapping[str, Callable[[Arguments], object]]) -> set[tuple[str, str]]:
    found = set()
    for name, read in readers.items():
        recording = _RecordingArguments()
        read(recording)
        found |= {(name, argument) for argument in recording.read}
    return found


def test_the_page_lists_the_actions_and_the_plugins() -> None:
    assert [row[0] for row in rows("Actions")] == [*ACTIONS, *GANG_ACTIONS]
    assert [row[0] for row in rows("Plugins")] == list(PLUGIN_DECODERS)


@pytest.mark.parametrize(
    ("heading", "readers"), [("Arguments of actions", READERS), ("Arguments of plugins", PLUGIN_DECODERS)]
)
def test_the_page_lists_every_argument(
    heading: str, readers: Mapping[str, Callable[[Arguments], object]]
) -> None:
    assert {(row[0], row[1]) for row in rows(heading)} == known_arguments(readers)


@pytest.mark.parametrize("row", [row for row in rows("Arguments of plugins") if len(row) == 3])
def test_documented_plugin_defaults_match_the_code(row: tuple[str, str, str]) -> None:
    plugin, argument, default = row
    entry = f"name: {plugin}, arguments: {{{argument}: {default}}}"
    text = f"{{actions: allocate, tiers: [{{plugins: [{{{entry}}}]}}]}}"
    without = f"{{actions: allocate, tiers: [{{plugins: [{{name: {plugin}}}]}}]}}"
    loaded = load_scheduler_configuration(text)
    assert loaded.warnings == ()
    assert loaded.configuration == load_scheduler_configuration(without).configuration


@pytest.mark.parametrize("row", [row for row in rows("Arguments of actions") if len(row) == 3])
def test_documented_action_defaults_match_the_code(row: tuple[str, str, str]) -> None:
    action, argument, default = row
    without = f"actions: {action}\ntiers: [{{plugins: [{{name: gang}}]}}]\n"
    text = f"{without}configurations: [{{name: {action}, arguments: {{{argument}: {default}}}}}]\n"
    loaded = load_scheduler_configuration(text)
    assert loaded.warnings == ()
    assert loaded.configuration == load_scheduler_configuration(without).configuration


def test_the_page_lists_every_enable_field() -> None:
    listed = set(re.findall(r"`(enabled?[A-Z]\w+)`", section("Switches")))
    assert listed == {*ENABLE_FIELDS, "enableHierarchy"}


def test_the_page_lists_what_is_not_supported() -> None:
    rejected, warned = section("Unsupported plugins of Volcano").split("These plugins only score")
    assert set(re.findall(r"`([\w-]+)`", rejected)) == set(UNSUPPORTED_FILTERS)
    assert set(re.findall(r"`([\w-]+)`", warned)) == set(UNSUPPORTED_SCORERS)


def blocks() -> list[str]:
    """Return the indented blocks before the first heading."""
    found = re.findall(r"(?m)(?:^    .*\n)+", PAGE.partition("\n## ")[0])
    return [re.sub(r"(?m)^    ", "", block) for block in found]


def test_the_example_equals_the_default() -> None:
    example, _ = blocks()
    loaded = load_scheduler_configuration(example)
    assert loaded.warnings == ()
    assert loaded.configuration == default_scheduler_configuration()


def test_messages_on_the_page_match_the_code() -> None:
    _, messages = blocks()
    typo, rejected, warned = messages.splitlines()
    assert explain_group('actions: "enqeue, allocate"\n') == [typo]
    tiers = "actions: allocate\n\ntiers: [{plugins: [\n  {name: gang},\n  {name: tdm}]}]\n"
    assert explain_group(tiers) == [rejected]
    factor = "{name: overcommit, arguments: {overcommit-factor: 0.5}}"
    body = f"{{actions: allocate, tiers: [{{plugins: [{{name: gang}}]}}, {{plugins: [{factor}]}}]}}"
    assert load_scheduler_configuration(body).warnings == (warned,)


def explain_group(text: str) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_scheduler_configuration(text)
    return str(refusal.value).splitlines()
