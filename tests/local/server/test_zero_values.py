"""Clients in Go write fields that were never set with their zero values: those are set by default, too."""

from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server

Json = dict[str, Any]

PROBE = {"httpGet": {"port": 80}}
ZERO_PROBE = {
    "httpGet": {"port": 80, "path": "", "scheme": "", "host": ""},
    "timeoutSeconds": 0, "periodSeconds": 0, "successThreshold": 0, "failureThreshold": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "unset", "zeros"),
    [
        pytest.param(
            "services",
            {"clusterIP": "None", "ports": [{"port": 8265}]},
            {
                "clusterIP": "None", "type": "", "sessionAffinity": "",
                "ports": [{"port": 8265, "targetPort": 0, "nodePort": 0, "protocol": "", "name": ""}],
            },
            id="a port of a service",
        ),
        pytest.param(
            "services",
            {"clusterIP": "None", "ports": [{"port": 1}]},
            {"clusterIP": "None", "ports": [{"port": 1, "targetPort": ""}]},
            id="a port without a name",
        ),
        pytest.param(
            "pods",
            {"containers": [{"name": "a", "image": "a", "livenessProbe": PROBE}]},
            {
                "restartPolicy": "", "dnsPolicy": "", "schedulerName": "", "serviceAccountName": "",
                "containers": [
                    {
                        "name": "a", "image": "a", "imagePullPolicy": "", "terminationMessagePath": "",
                        "terminationMessagePolicy": "", "livenessProbe": ZERO_PROBE,
                    }
                ],
            },
            id="a container of a pod",
        ),
    ],
)  # fmt: skip
def test_zero_values_are_stored_like_fields_left_out(resource: str, unset: Json, zeros: Json) -> None:
    async def story(client: ApiClient) -> None:
        path = f"/api/v1/namespaces/default/{resource}"
        expected = await client.create(path, {"metadata": {"name": "unset"}, "spec": unset})
        stored = await client.create(path, {"metadata": {"name": "zeros"}, "spec": zeros})
        assert stored["spec"] == expected["spec"]

    run_with_server(story)
