"""Evictions of pods over HTTP: what disruption budgets allow."""

import pytest

from tests.local.server.test_apiserver import MERGE, PODS, Api, Json, a_pod, with_api

pytestmark = pytest.mark.slow


async def running(api: Api, *names: str) -> None:
    """Create running and ready pods with one label."""
    for name in names:
        pod = a_pod(name, nodeName="n")
        pod["metadata"]["labels"] = {"app": "x"}
        await api("POST", PODS, pod)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await api("PATCH", f"{PODS}/{name}/status", {"status": status}, Content_Type=MERGE)


@with_api
async def test_an_eviction_that_violates_a_disruption_budget_is_rejected(api: Api) -> None:
    await running(api, "a", "b", "c")
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "x"}}
    await api(
        "POST", budgets, {"metadata": {"name": "two"}, "spec": {"selector": selector, "minAvailable": "50%"}}
    )

    async def evict(name: str, query: str = "") -> tuple[int, Json]:
        return await api("POST", f"{PODS}/{name}/eviction{query}", {"metadata": {"name": name}})

    async def refusal(name: str) -> str:
        code, error = await evict(name)
        assert (code, error["reason"]) == (429, "TooManyRequests")
        (cause,) = error["details"]["causes"]
        return str(cause["message"])

    assert await refusal("a") == "The disruption budget two is still being processed by the server."
    status = {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    body = {"status": {**status, "observedGeneration": 1}}
    await api("PATCH", f"{budgets}/two/status", body, Content_Type=MERGE)
    assert (await evict("a", "?dryRun=All"))[0] == 201
    assert (await evict("a"))[0] == 201
    _, budget = await api("GET", f"{budgets}/two")
    assert budget["status"]["disruptionsAllowed"] == 0
    assert list(budget["status"]["disruptedPods"]) == ["a"]
    assert await refusal("b") == "The disruption budget two does not allow evicting pods currently"
    await api("PATCH", f"{budgets}/two/status", {"status": {"currentHealthy": 2}}, Content_Type=MERGE)
    assert await refusal("b") == "The disruption budget two needs 2 healthy pods and has 2 currently"
    await api("POST", PODS, a_pod("waiting"))
    assert (await evict("waiting"))[0] == 201, "a pending pod may always be evicted"
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await api("PATCH", f"{PODS}/b/status", unready, Content_Type=MERGE)
    assert (await evict("b"))[0] == 201, "the others are enough"
