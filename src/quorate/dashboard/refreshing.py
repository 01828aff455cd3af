"""Data that cost much to compute are refreshed only while the dashboard is used, and not all the time."""

from collections.abc import Awaitable, Callable

from quorate.dashboard.limits import UNUSED_S
from quorate.kube.clock import Clock


async def refresh_while_used(
    refresh: Callable[[], Awaitable[None]],
    is_used: Callable[[], bool],
    clock: Clock,
    shortest_s: float,
    rest: float,
) -> None:
    """Call ``refresh`` again and again while ``is_used`` returns True, until cancelled.

    The pause after a call is ``rest`` times as long as the call, so that a costly one is rare.  From one call
    to the next it is ``shortest_s`` at least.  ``clock`` is a steady one.
    """
    while True:
        begin, period_s = clock.now(), UNUSED_S
        if is_used():
            await refresh()
            period_s = max(shortest_s, (clock.now() - begin) * (1 + rest))
        await clock.sleep_until(begin + period_s)
