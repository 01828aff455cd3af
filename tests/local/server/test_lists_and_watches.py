"""Lists by pages, and watches from a list, over HTTP."""

import asyncio

import pytest

from tests.local.clusters import api_server
from tests.local.server.test_apiserver import CONFIG_MAPS, MERGE, Api, a_config_map, client_of, with_api

pytestmark = pytest.mark.slow


@with_api
async def test_a_watch_from_a_list_gets_each_later_change_once(api: Api) -> None:
    await api("POST", CONFIG_MAPS, a_config_map("before"))
    _, listed = await api("GET", CONFIG_MAPS)
    version = listed["metadata"]["resourceVersion"]
    await api("POST", CONFIG_MAPS, a_config_map("meanwhile"))
    async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as next_frame:
        frame = await next_frame()
        assert (frame["type"], frame["object"]["metadata"]["name"]) == ("ADDED", "meanwhile")
        await api("PATCH", f"{CONFIG_MAPS}/before", {"data": {"k": "v"}}, Content_Type=MERGE)
        await api("DELETE", f"{CONFIG_MAPS}/before")
        events = [await next_frame(), await next_frame()]
        assert [frame["type"] for frame in events] == ["MODIFIED", "DELETED"]
        assert [frame["object"].get("data") for frame in events] == [{"k": "v"}, {"k": "v"}]


@with_api
async def test_the_pages_of_a_list_are_of_one_revision(api: Api) -> None:
    for name in "abcd":
        await api("POST", CONFIG_MAPS, a_config_map(name))
    _, first = await api("GET", f"{CONFIG_MAPS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 2
    await api("DELETE", f"{CONFIG_MAPS}/c")
    await api("POST", CONFIG_MAPS, a_config_map("e"))
    _, rest = await api("GET", f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d"]
    assert "continue" not in rest["metadata"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_an_expired_continue_token_is_rejected_with_one_for_the_latest_revision() -> None:
    async def scenario() -> None:
        async with api_server(keep=4) as server, client_of(server) as api:
            for name in "abc":
                await api("POST", CONFIG_MAPS, a_config_map(name))
            _, first = await api("GET", f"{CONFIG_MAPS}?limit=1")
            for turn in range(12):
                await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": str(turn)}}, Content_Type=MERGE)
            await api("DELETE", f"{CONFIG_MAPS}/b")
            status, error = await api("GET", f"{CONFIG_MAPS}?continue={first['metadata']['continue']}")
            assert (status, error["reason"]) == (410, "Expired")
            _, rest = await api("GET", f"{CONFIG_MAPS}?continue={error['metadata']['continue']}")
            assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]

    asyncio.run(scenario())


def test_a_watch_from_a_compacted_revision_gets_an_error_event() -> None:
    async def scenario() -> None:
        async with api_server(keep=4) as server, client_of(server) as api:
            _, created = await api("POST", CONFIG_MAPS, a_config_map("a"))
            for turn in range(12):
                await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": str(turn)}}, Content_Type=MERGE)
            version = created["metadata"]["resourceVersion"]
            async with api.watch(f"{CONFIG_MAPS}?watch=true&resourceVersion={version}") as next_frame:
                frame = await next_frame()
                assert (frame["type"], frame["object"]["code"]) == ("ERROR", 410)

    asyncio.run(scenario())


@with_api
async def test_a_watch_ends_when_its_client_disconnects(api: Api) -> None:
    quiet = len(asyncio.all_tasks())
    async with api.watch(f"{CONFIG_MAPS}?watch=true"), api.watch(f"{CONFIG_MAPS}?watch=true"):
        assert len(asyncio.all_tasks()) > quiet
    async with asyncio.timeout(30):
        while len(asyncio.all_tasks()) > quiet:  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.01)
