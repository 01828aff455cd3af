"""metrics.k8s.io: what `kubectl top` shows."""

import pytest

from quorate.local.server.handlers.resource_metrics import simulated_usage
from quorate.local.server.requests.usage import ContainerUsage, read_summary
from tests.local.api_client import ApiClient, Json, run_with_server

METRICS = "/apis/metrics.k8s.io/v1beta1"
PODS = "/api/v1/namespaces/default/pods"


def a_pod(name: str, cpu: str, memory: str, usage: str = "", app: str = "a") -> Json:
    annotations = {"simulate.quorate.dev/usage": usage} if usage else {}
    metadata = {"name": name, "labels": {"app": app}, "annotations": annotations}
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {"metadata": metadata, "spec": spec}


def test_the_usage_of_running_pods_and_of_their_node() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
        await client.create("/api/v1/nodes", {"metadata": {"name": "idle"}})
        for pod in (
            a_pod("plain", "500m", "64Mi"),
            a_pod("measured", "1", "1Gi", "cpu=250m,memory=128Mi", app="b"),
            a_pod("pending", "4", "4Gi"),
        ):
            await client.create(PODS, pod)
            name = pod["metadata"]["name"]
            if name != "pending":
                await client.send("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
        code, listed = await client.send("GET", f"{METRICS}/pods")
        assert (code, listed["kind"]) == (200, "PodMetricsList")
        usage = {item["metadata"]["name"]: item["containers"][0]["usage"] for item in listed["items"]}
        assert usage == {
            "plain": {"cpu": "500000000n", "memory": "65536Ki"},
            "measured": {"cpu": "250000000n", "memory": "131072Ki"},
        }
        _, nodes = await client.send("GET", f"{METRICS}/nodes")
        assert {item["metadata"]["name"]: item["usage"] for item in nodes["items"]} == {
            "n": {"cpu": "750000000n", "memory": "196608Ki"},
            "idle": {"cpu": "0n", "memory": "0Ki"},
        }
        _, one = await client.send("GET", f"{METRICS}/namespaces/default/pods/plain")
        assert (one["kind"], one["window"]) == ("PodMetrics", "15s")
        _, selected = await client.send("GET", f"{METRICS}/namespaces/default/pods?labelSelector=app%3Db")
        assert [item["metadata"]["name"] for item in selected["items"]] == ["measured"]
        code, _ = await client.send("GET", f"{METRICS}/namespaces/default/pods/pending")
        assert code == 404
        code, _ = await client.send("GET", f"{METRICS}/nodes/missing")
        assert code == 404
        protobuf_first = "application/vnd.kubernetes.protobuf,application/json"
        code, listed = await client.send("GET", f"{METRICS}/pods", Accept=protobuf_first)
        assert (code, len(listed["items"])) == (200, 2)

    run_with_server(scenario)


@pytest.mark.parametrize("text", ["cpu", "cpu=lots", "=", "gpu=1,,", "cpu=1E90000", "memory=1E400"])
def test_amounts_that_cannot_be_read_change_nothing_and_stop_nothing(text: str) -> None:
    (found,) = simulated_usage(a_pod("p", "1", "1Ki", text))
    assert found.cpu_nanos in (10**9, 2**60 * 10**9)
    assert found.memory_bytes in (1024, 2**60)


def test_a_kubelets_summary() -> None:
    content = b"""{"node": {"nodeName": "n"}, "pods": [{"podRef": {"name": "p", "namespace": "d", "uid": "u"},
      "containers": [{"name": "c", "cpu": {"usageNanoCores": 7}, "memory": {"workingSetBytes": 9}}]}]}"""
    assert read_summary(content) == {("d", "p"): (ContainerUsage("c", 7, 9),)}
