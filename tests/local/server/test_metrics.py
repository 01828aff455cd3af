"""Request metrics over HTTP."""

import asyncio

import aiohttp
import pytest

from tests.local.clusters import api_server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.slow
def test_requests_are_counted_as_in_kube_apiserver() -> None:
    async def scenario() -> list[str]:
        async with api_server() as server:
            headers = {"Authorization": f"Bearer {server.token}"}
            async with aiohttp.ClientSession(server.url, headers=headers) as session:
                for _ in range(2):  # the second is refused
                    await session.post(CONFIG_MAPS, json={"metadata": {"name": "one"}})
                merge = {"Content-Type": "application/merge-patch+json"}
                await session.patch(f"{CONFIG_MAPS}/one", data=b'{"data": {"a": "b"}}', headers=merge)
                apply = {"Content-Type": "application/apply-patch+yaml"}
                applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}}
                await session.patch(f"{CONFIG_MAPS}/two?fieldManager=us", json=applied, headers=apply)
                await session.get("/apis/batch/v1/jobs")
                for path in ("/apis/batch/v1/nothing", "/apis/nothing/v1/jobs", f"{CONFIG_MAPS}/one/nothing"):
                    assert (await session.get(path)).status == 404  # not counted
                answer = await session.get("/metrics")
                text = await answer.text()
        return [line for line in text.splitlines() if line.startswith("apiserver_request_total")]

    def line(code: str, group: str, resource: str, verb: str) -> str:
        labels = (
            f'code="{code}",group="{group}",resource="{resource}",subresource="",verb="{verb}",version="v1"'
        )
        return f"apiserver_request_total{{{labels}}} 1"

    assert asyncio.run(scenario()) == [
        line("200", "", "configmaps", "PATCH"),
        line("200", "batch", "jobs", "LIST"),
        line("201", "", "configmaps", "APPLY"),
        line("201", "", "configmaps", "POST"),
        line("409", "", "configmaps", "POST"),
    ]
