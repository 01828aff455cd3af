"""Series from a Prometheus: its queries, and what it answers as a series."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from quorate.api.meta import at_epoch
from quorate.dashboard.history.prometheus import PrometheusSource, SourceFailed
from tests.observe.listening import listening

NOW = 7_200.0


def matrix(*results: tuple[dict[str, str], list[tuple[int, str]]]) -> dict[str, Any]:
    found = [{"metric": metric, "values": values} for metric, values in results]
    return {"status": "success", "data": {"resultType": "matrix", "result": found}}


@asynccontextmanager
async def prometheus(answer: Callable[[str], Any]) -> AsyncIterator[tuple[PrometheusSource, list[str]]]:
    """Run a server that answers each query; yield the queries that it got."""
    queries: list[str] = []

    async def query_range(request: web.Request) -> web.Response:
        form = await request.post()
        queries.append(str(form["query"]))
        assert (form["start"], form["end"], form["step"]) == ("3610", "7200", "10")
        found = answer(str(form["query"]))
        return found if isinstance(found, web.Response) else web.json_response(found)

    app = web.Application()
    app.router.add_post("/api/v1/query_range", query_range)
    async with listening("prometheus", app) as url:
        yield PrometheusSource(f"{url}/"), queries


def test_the_series_of_a_queue_has_the_values_of_all_queries_by_time() -> None:
    def answer(query: str) -> Any:
        labels = {"flavor": "spot", "resource": "cpu"}
        if "nominal" in query:
            return matrix((labels, [(3_610, "8"), (3_620, "8")]))
        if "reservation" in query:
            return matrix((labels, [(3_610, "2.5"), (3_620, "NaN")]))
        return matrix(({}, [(3_620, "3")])) if "pending" in query else matrix()

    async def story() -> None:
        async with prometheus(answer) as (source, queries):
            found = await source.series('quo"ted', "hour", NOW)
            assert found.names == ("pending", "spot/cpu used", "spot/cpu nominal")
            assert [(each.at, each.values) for each in found.samples] == [
                (at_epoch(3_610), (None, 2.5, 8.0)),
                (at_epoch(3_620), (3.0, None, 8.0)),
            ]
            assert found.source == source.address
            assert all('{cluster_queue="quo\\"ted"}' in query for query in queries)

    asyncio.run(story())


def test_the_overview_has_shares_and_waits() -> None:
    def answer(query: str) -> Any:
        if query.startswith("histogram_quantile"):
            return matrix(({}, [(3_610, "12" if "(0.5," in query else "90")]))
        return matrix(({"resource": "cpu"} if " / " in query else {}, [(3_610, "0.5")]))

    async def story() -> None:
        async with prometheus(answer) as (source, _):
            found = await source.series("", "hour", NOW)
            assert found.names == ("pending", "admitted", "cpu used share", "wait p50", "wait p90")
            assert [each.values for each in found.samples] == [(0.5, 0.5, 0.5, 12.0, 90.0)]

    asyncio.run(story())


def test_the_queries_name_metrics_that_the_controllers_export() -> None:
    reference = Path("docs/reference/metrics.md").read_text()
    source = PrometheusSource("http://x")
    texts = [each.text for each in (*source._of_queue("q"), *source._of_overview(60))]
    names = {name for text in texts for name in re.findall(r"kueue_\w+", text)}
    assert len(names) == 5
    for name in names:
        assert f"`{name.removesuffix('_bucket')}`" in reference, name


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param({"status": "error", "error": "bad query"}, "bad query", id="an error"),
        pytest.param(web.Response(text="<html>", status=502), "DecodeError", id="another server"),
    ],
)
def test_a_failure_is_reported(answer: Any, problem: str) -> None:
    async def story() -> None:
        async with prometheus(lambda query: answer) as (source, _):
            with pytest.raises(SourceFailed, match=problem):
                await source.series("q", "hour", NOW)
        with pytest.raises(SourceFailed, match="Connect"):
            await source.series("q", "hour", NOW)

    asyncio.run(story())
