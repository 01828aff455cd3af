"""Forecasts from the estimates that the controllers serve."""

import asyncio
from datetime import datetime
from typing import Any

from quorate.api.meta import Key
from quorate.dashboard.queries import ADMINISTRATOR
from quorate.dashboard.schema import Forecast
from quorate.dashboard.simulation.forecasts import Forecasts
from quorate.dashboard.simulation.simulation_process import Cluster
from quorate.kube.clock import WallClock
from tests.kube.fake_server import Answer, FakeServer, Request

AT = "2026-01-01T12:00:00Z"
STARTS: list[dict[str, Any]] = [
    {"name": "later", "p50": "2026-01-01T13:00:00Z", "p90": "2026-01-01T15:00:00Z"},
    {"name": "next", "p50": "2026-01-01T12:00:30Z"},
    {"name": "not-foreseen"},
]


def answer(request: Request) -> Answer:
    items = [
        {
            "metadata": {"namespace": "red", "name": each["name"]},
            "estimate": {"computedAt": AT, "runs": 20} | {k: v for k, v in each.items() if k != "name"},
        }
        for each in STARTS
    ]
    is_asked = request.path == "/apis/visibility.quorate.dev/v1beta1/estimates"
    return Answer(200, {"items": items}) if is_asked else Answer(404)


def after(moment: datetime | None) -> float | None:
    """Return the seconds from the moment that was played."""
    return None if moment is None else (moment - datetime.fromisoformat(AT)).total_seconds()


def test_served_estimates_are_shown_in_the_order_of_their_starts() -> None:
    async def first_forecast() -> tuple[Forecast, Forecasts]:
        announced = asyncio.Event()
        async with FakeServer(answer) as server, server.client() as client:
            forecasts = Forecasts(
                Cluster(kubeconfig="absent"), client, WallClock(), lambda: True,
                lambda workload: "main", lambda local_queue: f"of-{local_queue.name}", announced.set,
            )  # fmt: skip
            running = asyncio.create_task(forecasts.run())
            async with asyncio.timeout(20):
                await announced.wait()
            running.cancel()
            await asyncio.wait([running])
        return forecasts.seen_by(ADMINISTRATOR, "of-main"), forecasts

    found, forecasts = asyncio.run(first_forecast())
    assert [(each.name, each.local_queue, after(each.p50), after(each.p90)) for each in found.starts] == [
        ("next", "main", 30, None),
        ("later", "main", 3600, 10_800),
        ("not-foreseen", "main", None, None),
    ]
    assert (found.plays, found.problem, found.at) == (20, "", forecasts.estimates.at)
    assert tuple(map(after, forecasts.estimates.starts[Key("red", "later")])) == (3600, 10_800)
    assert forecasts.seen_by(ADMINISTRATOR, "of-other").starts == ()
