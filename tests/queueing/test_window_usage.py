"""What is in use of the amounts of a window: by its owners, and by others where all else is in use."""

from typing import Any

import pytest

from quorate.queueing.window_usage import WindowUsage, WindowUsages
from tests.queueing.test_reserved_windows import CLOSES, OPENS, a_reservation, a_world, job

# The queues owner and q have 8 cpus each, of which the window keeps 4 unless given otherwise.
OWNED = {"owners": {"localQueues": [{"namespace": "default", "name": "owner"}]}}


@pytest.mark.parametrize(
    ("own", "others", "spec", "want"),
    [
        pytest.param(0, 12, {}, (4000, 0, 0), id="others leave what is reserved"),
        pytest.param(0, 13, {}, (4000, 0, 1000), id="others use a part of it"),
        pytest.param(3, 13, {}, (4000, 3000, 1000), id="owners and others use all of it"),
        pytest.param(8, 8, {}, (4000, 4000, 0), id="owners use more than it"),
        pytest.param(3, 0, OWNED, (4000, 3000, 0), id="owners by their local queue"),
        pytest.param(8, 8, {"purpose": "Maintenance", "owners": {}}, (4000, 0, 4000), id="maintenance"),
    ],
)
def test_the_use_of_amounts(own: int, others: int, spec: dict[str, Any], want: tuple[int, ...]) -> None:
    jobs = [job(name, cpu, queue_name=name) for name, cpu in (("owner", own), ("q", others)) if cpu]
    world = a_world(*jobs)
    world.state.put_window(a_reservation(OPENS, CLOSES, **spec))
    window = world.state.ledger.windows.get("night")
    assert window is not None
    (usage,) = WindowUsages(world.state.ledger).of(window).values()
    assert usage == WindowUsage(*want)
