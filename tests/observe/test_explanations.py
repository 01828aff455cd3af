"""Explanations over HTTP: of each kind, with the right to get the object, without names of other tenants."""

import asyncio
import random

import aiohttp
import pytest

from quorate.api.explanation import API_VERSION
from quorate.api.meta import Key
from quorate.controllers.unserved import why_not_queued
from quorate.inspect.cluster_reader import ClusterReader
from quorate.inspect.explain.served import NotServed, served_explanation
from quorate.kube.client import Client
from quorate.kube.resources import NATIVE_POD_GROUPS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.authorization import authorized
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.explanations import Explainer
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.observe.visibility import visibility, visibility_access
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from tests.kube.virtual_clock import VirtualClock
from tests.local.api_client import connect
from tests.local.clusters import api_server
from tests.local.server.test_access import ACCOUNTS, a_rule, grant, token_of
from tests.observe.listening import listening
from tests.observe.test_visibility import NOW, a_silent_informer, a_state, ask, refused

pytestmark = pytest.mark.slow

PATH = f"apis/{API_VERSION}"


def a_replica(state: State) -> Replica:
    AdmissionCycle(state).run(NOW)
    replica = Replica("standalone")
    replica.set_view(View(state, a_silent_informer(), CustomLabels()))
    return replica


def test_each_kind_has_an_explanation_and_a_schema() -> None:
    async def story() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            replica = a_replica(a_state())
            explainer = Explainer(
                replica,
                ClusterReader(client),
                DelegatedAuth(client, VirtualClock(0.0)),
                why_not_queued,
                VirtualClock(NOW),
            )
            async with (
                listening("visibilityServer", visibility(replica, explainer)) as url,
                aiohttp.ClientSession(f"{url}/") as session,
            ):
                code, found = await ask(session, f"{PATH}/namespaces/ns/workloads/middle/explanation")
                assert (code, found["kind"], found["apiVersion"]) == (200, "Explanation", API_VERSION)
                assert (found["state"], found["ahead"]) == ("NeverFits", 2)
                assert found["firstAhead"] == ["ns/urgent", "ns/early"]
                assert found["reasons"][0]["code"] == "QuotaExceeded"
                plain = await ask(session, "visibility/namespaces/ns/workloads/middle/explanation")
                assert plain == (200, found)
                _, queue = await ask(session, f"{PATH}/clusterqueues/research/explanation")
                assert (queue["state"], queue["ahead"], queue["firstAhead"][0]) == ("Active", 4, "ns/urgent")
                _, local = await ask(session, f"{PATH}/namespaces/ns/localqueues/lost/explanation")
                assert (local["state"], local["reasons"][0]["code"]) == ("Inactive", "ClusterQueueMissing")
                for missing in (
                    "namespaces/ns/workloads/none",
                    "clusterqueues/none",
                    "namespaces/ns/localqueues/none",
                    "namespaces/ns/podgroups/none",
                ):
                    assert (await refused(session, f"{PATH}/{missing}/explanation"))[0] == 404, missing

                job = "group=apps&resource=deployments&kind=Deployment&queue=a"
                _, lost = await ask(session, f"{PATH}/namespaces/ns/jobs/train/explanation?{job}")
                assert (lost["state"], lost["object"]["kind"]) == ("NotQueued", "Deployment")
                assert "the integration deployment is off" in lost["message"]

                _, groups = await ask(session, "apis")
                assert [each["name"] for each in groups["groups"]][1:] == ["visibility.quorate.dev"]
                _, served = await ask(session, PATH)
                assert {each["name"].partition("/")[0] for each in served["resources"]} == {
                    "clusterqueues", "localqueues", "workloads", "podgroups", "jobs", "estimates",
                    "explanations",
                }  # fmt: skip
                _, index = await ask(session, "openapi/v3")
                (document,) = index["paths"].values()
                _, schema = await ask(session, document["serverRelativeURL"].lstrip("/"))
                fields = schema["components"]["schemas"]["Explanation"]["properties"]
                assert set(found) <= set(fields)

    asyncio.run(story())


def test_a_tenant_sees_its_own_workload_and_no_names_of_others() -> None:
    async def story() -> None:
        replica = a_replica(a_state())
        async with (
            api_server() as server,
            connect(server) as api_client,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            await api_client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
            robot = {"Authorization": f"Bearer {await token_of(api_client, 'robot')}"}
            auth = DelegatedAuth(client, VirtualClock(1000.0))
            app = visibility(
                replica, Explainer(replica, ClusterReader(client), auth, why_not_queued, VirtualClock(NOW))
            )
            app = authorized(app, auth, visibility_access)
            rule = a_rule("get", "workloads", groups="kueue.x-k8s.io", resourceNames=["middle"])
            await grant(api_client, "one-workload", rule, everywhere=True)
            volcano = a_rule("get", "podgroups", groups="scheduling.volcano.sh")
            await grant(api_client, "pod-groups", volcano, everywhere=True)
            async with (
                listening("visibilityServer", app) as url,
                aiohttp.ClientSession(f"{url}/", headers=robot) as session,
            ):
                code, found = await ask(session, f"{PATH}/namespaces/ns/workloads/middle/explanation")
                assert (code, found["state"], found["ahead"]) == (200, "NeverFits", 2)
                assert "firstAhead" not in found
                for hidden in ("namespaces/ns/workloads/early", "clusterqueues/research"):
                    assert (await refused(session, f"{PATH}/{hidden}/explanation"))[0] == 403, hidden
                of_group = f"{PATH}/namespaces/ns/podgroups/train/explanation"
                assert (await refused(session, of_group))[0] == 404
                assert (await refused(session, f"{of_group}?group=scheduling.k8s.io"))[0] == 403

    asyncio.run(story())


def test_groups_of_kubernetes_are_explained_by_their_api_group() -> None:
    async def story() -> None:
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            native = {"metadata": {"name": "train"}, "spec": spec}
            await client.create(NATIVE_POD_GROUPS, native, "default")
            auth, clock = DelegatedAuth(client, VirtualClock(0.0)), VirtualClock(NOW)
            replica = a_replica(a_state())
            explainer = Explainer(replica, ClusterReader(client), auth, why_not_queued, clock)
            async with (
                listening("visibilityServer", visibility(replica, explainer)) as url,
                Client(RestConfig(url), random.Random(1)) as controllers,
            ):
                key = Key("default", "scheduling.k8s.io/train")
                explanation = await served_explanation(controllers, "podgroups", key)
                assert explanation.object.name == key.name
                assert (explanation.state, explanation.message) == ("Queued", "its pods wait for nodes")
                with pytest.raises(NotServed):  # Volcano's API has no group of this name
                    await served_explanation(controllers, "podgroups", Key("default", "train"))

    asyncio.run(story())
