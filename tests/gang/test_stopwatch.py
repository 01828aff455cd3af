"""A session reports the beginning of each of its parts."""

from quorate.gang.session_opening import SessionPart, Stopwatch
from tests.gang.vectors import settings_of
from tests.gang.world import World


class RecordingStopwatch(Stopwatch):
    def __init__(self) -> None:
        self.parts: list[tuple[SessionPart, str]] = []

    def begin(self, part: SessionPart, name: str = "") -> None:
        self.parts.append((part, name))


def test_the_order_of_the_parts_of_a_session() -> None:
    conf = {"actions": "allocate, preempt, allocate", "tiers": [["gang"], ["predicates", "drf"]]}
    noted = RecordingStopwatch()
    World({}, settings_of(conf, "design"), restarting=False).session(noted)
    assert noted.parts == [
        ("opening", ""),
        ("plugin", "gang"), ("plugin", "predicates"), ("plugin", "drf"),
        ("opening", ""),
        ("action", "allocate"), ("action", "preempt"), ("action", "allocate"),
        ("closing", ""),
    ]  # fmt: skip
