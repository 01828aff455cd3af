"""Requests from other machines are authenticated and authorized by the API server."""

import asyncio
import random

import aiohttp
import pytest

from quorate.kube.client import Client
from quorate.kube.limits import REVIEW_CACHE_S
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.delegated_auth import DelegatedAuth
from quorate.observe.authorization import authorized
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.observe.visibility import visibility, visibility_access
from tests.kube.virtual_clock import VirtualClock
from tests.local.api_client import connect
from tests.local.clusters import api_server
from tests.local.server.test_access import ACCOUNTS, a_rule, grant, token_of
from tests.observe.listening import listening
from tests.observe.test_visibility import a_silent_informer, a_state, refused

pytestmark = pytest.mark.slow

QUEUE = "apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/research/pendingworkloads"


def test_only_authorized_users_are_served() -> None:
    async def story() -> None:
        clock, replica = VirtualClock(1000.0), Replica("standalone")
        replica.set_view(View(a_state(), a_silent_informer(), CustomLabels()))
        async with (
            api_server() as server,
            connect(server) as api_client,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            await api_client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
            robot = {"Authorization": f"Bearer {await token_of(api_client, 'robot')}"}
            app = authorized(visibility(replica), DelegatedAuth(client, clock), visibility_access)
            async with listening("visibilityServer", app) as url:

                async def see(headers: dict[str, str]) -> tuple[int, str]:
                    async with aiohttp.ClientSession(f"{url}/", headers=headers) as session:
                        return await refused(session, QUEUE)

                unauthorized = (401, "show a bearer token of this cluster")
                assert await see({}) == unauthorized
                assert await see({"Authorization": "Bearer made-up"}) == unauthorized
                assert await see({"Authorization": "Basic YTpi"}) == unauthorized
                forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
                assert await see(forged) == unauthorized
                refusal = f"system:serviceaccount:default:robot may not get /{QUEUE}"
                assert await see(robot) == (403, refusal)

                rule = a_rule("get", "clusterqueues/pendingworkloads", groups="visibility.kueue.x-k8s.io")
                await grant(api_client, "watcher", rule, everywhere=True)
                assert await see(robot) == (403, refusal)  # the decision is cached
                await clock.advance_to(clock.now() + REVIEW_CACHE_S)
                async with aiohttp.ClientSession(f"{url}/", headers=robot) as session:
                    assert (await session.get(QUEUE)).status == 200
                    local = QUEUE.replace("clusterqueues/research", "namespaces/ns/localqueues/a")
                    assert (await session.get(local)).status == 403

    asyncio.run(story())


def test_requests_are_refused_by_a_server_that_may_not_review_them() -> None:
    """As kube-apiserver's delegated authorization: a missing role of the server is not the client's fault."""

    async def story() -> None:
        async with api_server() as server, connect(server) as api_client:
            await api_client.create(ACCOUNTS, {"metadata": {"name": "robot"}})
            token = await token_of(api_client, "robot")
            async with Client(RestConfig(server.url, credentials=Token(token)), random.Random(1)) as client:
                auth = DelegatedAuth(client, VirtualClock(0.0))
                app = authorized(visibility(Replica("standalone")), auth, visibility_access)
                headers = {"Authorization": f"Bearer {token}"}
                async with (
                    listening("visibilityServer", app) as url,
                    aiohttp.ClientSession(f"{url}/", headers=headers) as session,
                ):
                    assert await refused(session, QUEUE) == (500, "this server may not review the request")

    asyncio.run(story())


def test_requests_are_refused_while_the_api_server_does_not_answer() -> None:
    async def story() -> None:
        replica = Replica("standalone")
        cluster = RestConfig("http://127.0.0.1:9", credentials=Token("any"))
        async with Client(cluster, random.Random(1), deadline_s=0.2) as client:
            app = authorized(visibility(replica), DelegatedAuth(client, VirtualClock(0.0)), visibility_access)
            async with (
                listening("visibilityServer", app) as url,
                aiohttp.ClientSession(f"{url}/", headers={"Authorization": "Bearer t"}) as session,
            ):
                assert await refused(session, QUEUE) == (503, "the API server did not review the request")

    asyncio.run(story())


def test_a_client_without_a_certificate_has_to_reconnect() -> None:
    """The API server keeps connections; one from before its authority was known must be closed."""

    async def story() -> None:
        replica = Replica("standalone")
        cluster = RestConfig("http://127.0.0.1:9", credentials=Token("any"))
        async with Client(cluster, random.Random(1), deadline_s=0.2) as client:
            for front_proxy, kept in ((None, True), (lambda certificate: True, False)):
                reviewer = DelegatedAuth(client, VirtualClock(0.0))
                app = authorized(visibility(replica), reviewer, visibility_access, front_proxy)
                async with (
                    listening("visibilityServer", app) as url,
                    aiohttp.ClientSession(f"{url}/") as session,
                    session.get(QUEUE) as answer,
                ):
                    assert answer.status == 401
                    assert (answer.headers.get("Connection") != "close") == kept

    asyncio.run(story())
