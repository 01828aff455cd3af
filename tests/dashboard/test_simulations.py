"""Forecasts and comparisons: each in a process of its own, of a cluster that is read over HTTP."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from quorate.dashboard.limits import SessionLimits
from quorate.dashboard.simulation.simulation_process import (
    Cluster,
    Failure,
    Forecasted,
    ForecastTask,
    WhatIfTask,
    simulate,
)
from quorate.simulate.inputs.scenario import API_VERSION
from tests.dashboard.served import Served, create_workload, served
from tests.dashboard.test_login import with_dashboard

pytestmark = pytest.mark.slow

SMALLER = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: shared}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources: [{name: cpu, nominalQuota: "1"}]
"""
SCENARIO = f"""
apiVersion: {API_VERSION}
kind: Scenario
traces: [{{file: /etc/passwd}}]
"""


def test_a_comparison_shows_what_a_smaller_quota_delays(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()
        answer = await browser.post("/what-if", {"manifests": SMALLER, "runDuration": "30m"})
        assert answer.status == 200, answer.body
        found = answer.json
        assert found["findings"] == []
        jobs = found["comparison"]["jobs"]
        assert (jobs["sooner"], jobs["later"]) == (0, 1)  # of two jobs with one cpu each, one waits
        assert all("1800 s is assumed" in each for each in found["runTimes"])
        for manifests, finding in (
            ("kind: [", "manifests:"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "is not simulated"),
            (SCENARIO, "a Scenario is not accepted"),
        ):
            refused = (await browser.post("/what-if", {"manifests": manifests, "runDuration": "1h"})).json
            assert refused["comparison"] is None
            assert finding in refused["findings"][0]
        odd = await browser.post("/what-if", {"manifests": SMALLER, "runDuration": "soon"})
        assert (odd.status, odd.json["reason"]) == (400, "BadRequest")

    with_dashboard(tmp_path, story)


def test_comparisons_wait_for_each_other_up_to_a_limit(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        browser = await dashboard.logged_in()
        body = {"manifests": SMALLER, "runDuration": "1h"}
        answers = await asyncio.gather(*(browser.post("/what-if", body) for _ in range(3)))
        assert sorted(each.status for each in answers) == [200, 429, 429]

    with_dashboard(tmp_path, story, session_limits=SessionLimits(comparisons=1))


def test_a_forecast_is_computed_while_a_user_is_logged_in_and_cut_to_what_it_sees(tmp_path: Path) -> None:
    async def run() -> None:
        async with served(tmp_path, has_forecasts=True) as dashboard:
            for number in range(4):
                await create_workload(dashboard.administrator, "blue", f"blue-{number}")
            red, all_ = await dashboard.logged_in("red"), await dashboard.logged_in()

            async def forecast() -> Any:
                return (await all_.get("/forecast?clusterQueue=shared")).json

            async def is_there() -> bool:
                return (await forecast())["at"] is not None

            await dashboard.until(is_there)
            found = await forecast()
            assert (found["problem"], found["plays"], found["horizonS"]) == ("", 20, None)
            starts = {each["name"]: each["p50"] for each in found["starts"]}
            assert len(starts) == 6
            at = datetime.fromisoformat(found["at"])
            after_s = sorted(
                (datetime.fromisoformat(start) - at).total_seconds() for start in starts.values()
            )
            assert after_s == [0, 0, 0, 0, 3600, 3600]  # four fit, two wait for an hour
            own = (await red.get("/forecast")).json["starts"]
            assert [each["name"] for each in own] == ["red-job"]
            (row,) = (await red.get("/workloads")).json["items"]
            assert row["startsP50"] == starts["red-job"]
            assert (await all_.get("/forecast?clusterQueue=hidden")).json["starts"] == []

    asyncio.run(run())


def test_a_process_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    task = ForecastTask(cluster=Cluster(kubeconfig=str(tmp_path / "absent")), budget_s=1.0)
    outcome = asyncio.run(simulate(task, 0.01))
    assert outcome == Failure("the simulation did not end within 0.01 s")


def test_what_the_process_cannot_do_is_a_problem_in_words(tmp_path: Path) -> None:
    async def story(dashboard: Served) -> None:
        absent = Cluster(kubeconfig=str(tmp_path / "absent"))
        outcome = await simulate(WhatIfTask(cluster=absent, text=""), 60)
        assert isinstance(outcome, Failure)
        assert "absent" in outcome.problem
        small = Cluster(kubeconfig=str(tmp_path / "kubeconfig"), memory_bytes=150 * 2**20)
        outcome = await simulate(ForecastTask(cluster=small, budget_s=1.0), 60)
        assert not isinstance(outcome, Forecasted)

    with_dashboard(tmp_path, story)
