"""The pages of the reference that are made from what the code says."""

from quorate.cli.reference import commands, events, filter_failures, kinds

PAGES = {
    "commands.md": commands.page,
    "kinds.md": kinds.page,
    "gang-kinds.md": kinds.gang_page,
    "events.md": events.page,
    "placement-verdicts.md": filter_failures.page,
}

__all__ = ["PAGES"]
