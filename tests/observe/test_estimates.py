"""Estimates of when workloads start: over HTTP, in explanations and as series."""

import asyncio
import random

import aiohttp
import pytest

from quorate.api.explanation import MAX_AHEAD, StartAnswer, StartEstimate
from quorate.api.meta import Key, at_epoch
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_reader import ClusterReader
from quorate.kube.client import Client
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.authorization import authorized
from quorate.observe.explanations import Explainer
from quorate.observe.queueing_metrics import metrics
from quorate.observe.replica import Replica
from quorate.observe.visibility import visibility, visibility_access
from tests.kube.virtual_clock import VirtualClock
from tests.local.api_client import connect
from tests.local.clusters import api_server
from tests.local.server.test_access import ACCOUNTS, a_rule, grant, token_of
from tests.observe.listening import listening
from tests.observe.test_explanations import PATH, a_replica
from tests.observe.test_visibility import a_state, a_workload, ask, refused

pytestmark = pytest.mark.slow
SPEC = {"queueName": "lq", "podSets": []}


def a_replica_with_estimates() -> Replica:
    state = a_state(cpu="2")
    state.put_workload(a_workload("running", "a", 1000, 10), 1000.0)
    replica = a_replica(state)

    def estimate(p50: float | None, p90: float | None) -> StartEstimate:
        moments = (None if each is None else at_epoch(each) for each in (p50, p90))
        p50_at, p90_at = moments
        return StartEstimate(computed_at=at_epoch(1000.0), p50=p50_at, p90=p90_at, runs=20, run_times="known")

    replica.estimates.replace(
        {
            Key("ns", "middle"): estimate(1060.0, 1120.0),
            Key("ns", "urgent"): estimate(1010.0, None),
            Key("ns", "gone"): estimate(1000.0, 1000.0),
        },
        1000.0,
        2.5,
    )
    return replica


def test_estimates_are_served_for_what_waits_to_callers_that_may_list_workloads() -> None:
    async def story() -> None:
        replica = a_replica_with_estimates()
        async with (
            api_server() as server,
            connect(server) as api_client,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            await api_client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
            robot = {"Authorization": f"Bearer {await token_of(api_client, 'robot')}"}
            auth = DelegatedAuth(client, VirtualClock(1000.0))
            app = visibility(
                replica, Explainer(replica, ClusterReader(client), auth, why_not_queued, VirtualClock(1000.0))
            )
            app = authorized(app, auth, visibility_access)
            getting = a_rule("get", "workloads", groups="kueue.x-k8s.io")
            await grant(api_client, "get", getting, everywhere=True)
            async with (
                listening("visibilityServer", app) as url,
                aiohttp.ClientSession(f"{url}/", headers=robot) as session,
            ):
                _, explained = await ask(session, f"{PATH}/namespaces/ns/workloads/middle/explanation")
                assert explained["estimate"] == {
                    "computedAt": "1970-01-01T00:16:40Z", "p50": "1970-01-01T00:17:40Z",
                    "p90": "1970-01-01T00:18:40Z", "runs": 20, "runTimes": "known",
                }  # fmt: skip
                for path in ("namespaces/ns/estimates", "estimates"):
                    assert (await refused(session, f"{PATH}/{path}"))[0] == 403, path

                listing = a_rule("list", "workloads", groups="kueue.x-k8s.io")
                await grant(api_client, "list", listing, everywhere=True)
                other_auth = DelegatedAuth(client, VirtualClock(5000.0))
                later = visibility(
                    replica,
                    Explainer(
                        replica, ClusterReader(client), other_auth, why_not_queued, VirtualClock(1000.0)
                    ),
                )
                later = authorized(later, other_auth, visibility_access)
            async with (
                listening("visibilityServer", later) as url,
                aiohttp.ClientSession(f"{url}/", headers=robot) as session,
            ):
                for path in ("namespaces/ns/estimates", "estimates"):
                    code, found = await ask(session, f"{PATH}/{path}")
                    assert (code, found["kind"]) == (200, "StartEstimateList")
                    assert [each["metadata"]["name"] for each in found["items"]] == ["middle", "urgent"]
                    assert "p90" not in found["items"][1]["estimate"]
                _, elsewhere = await ask(session, f"{PATH}/namespaces/other/estimates")
                assert "items" not in elsewhere
                question = {"workload": {"metadata": {"name": "asked", "namespace": "ns"}, "spec": SPEC}}
                async with session.post(f"{PATH}/namespaces/ns/estimates", json=question) as response:
                    assert response.status == 403, "it needs to create workloads"

    asyncio.run(story())


def test_a_question_about_a_workload_that_does_not_exist_is_answered_over_http() -> None:
    async def story() -> None:
        replica = a_replica_with_estimates()
        async with api_server() as server:
            client = Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1))
            clock = VirtualClock(1000.0)
            auth = DelegatedAuth(client, clock)
            app = visibility(replica, Explainer(replica, ClusterReader(client), auth, why_not_queued, clock))
            async with (
                client,
                listening("visibilityServer", app) as url,
                aiohttp.ClientSession(f"{url}/") as session,
            ):
                path = f"{PATH}/namespaces/ns/estimates"
                question = {"workload": {"metadata": {"name": "asked", "namespace": "ns"}, "spec": SPEC}}
                async with session.post(path, json=question) as response:
                    off = await response.json()
                assert (off["starts"], off["reason"]) == ("Unknown", "estimates are turned off")
                many = {**question, "ahead": (MAX_AHEAD + 1) * [question["workload"]]}
                bodies: tuple[object, ...] = ([], many)
                for body in bodies:
                    async with session.post(path, json=body) as response:
                        assert response.status == 400
                async with session.post(f"{PATH}/namespaces/other/estimates", json=question) as response:
                    assert response.status == 400, "it is of another namespace"
                replica.estimates.are_computed = True
                asking = asyncio.ensure_future(session.post(path, json=question))
                asked = await asyncio.wait_for(replica.estimates.questions.get(), 20)
                assert asked.content.workload.metadata.key == Key("ns", "asked")
                asked.answer.set_result(StartAnswer(starts="Within", p50_seconds=60.0))
                found = await (await asking).json()
                assert (found["kind"], found["p50Seconds"]) == ("StartAnswer", 60.0)

    asyncio.run(story())


def test_series_have_the_median_of_what_waits() -> None:
    async def story() -> None:
        async with (
            listening("metrics.bindAddress", metrics(a_replica_with_estimates())) as url,
            aiohttp.ClientSession() as session,
            session.get(f"{url}/metrics") as response,
        ):
            lines = (await response.text()).splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if "_start_seconds{" in line)
        labels = '{cluster_queue="research",percentile="%d",replica_role="standalone"}'
        series = f"quorate_pending_start_seconds{labels}"
        assert found == {series % 50: "35.0", series % 90: "+Inf"}
        role = '{replica_role="standalone"}'
        assert f"quorate_estimates_timestamp_seconds{role} 1000.0" in lines
        assert f"quorate_estimates_processor_seconds{role} 2.5" in lines

    asyncio.run(story())
