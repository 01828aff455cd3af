"""Claim templates of StatefulSets; the answers are those of kube-apiserver 1.36."""

from typing import Any

import pytest

from tests.local.api_client import ApiClient, run_with_server

Json = dict[str, Any]

PATH = "/apis/apps/v1/namespaces/default/statefulsets"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
NO_LABEL = (
    'Invalid value: "A b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters '
    "or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
MOUNT = "spec.template.spec.containers[0].volumeMounts[0].name"


def a_set(claims: list[Json], volumes: list[Json] | None = None, **spec: Any) -> Json:
    container = {"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
    pod = {"containers": [container], **({"volumes": volumes} if volumes else {})}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    fields = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "volumeClaimTemplates": claims}
    return {"metadata": {"name": "db"}, "spec": {"serviceName": "db", **fields, **spec}}


def a_claim(name: str = "data", spec: Json | None = None) -> Json:
    return {"metadata": {"name": name}, "spec": CLAIM if spec is None else spec}


@pytest.mark.parametrize(
    ("stateful_set", "message"),
    [
        pytest.param(a_set([]), f'{MOUNT}: Not found: "data"', id="no volume"),
        pytest.param(
            a_set([a_claim(spec={})]),
            "[spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is "
            "required, spec.volumeClaimTemplates[0].spec.resources[storage]: Required value]",
            id="an empty claim",
        ),
        pytest.param(
            a_set([a_claim("A b")]),
            f'[spec.template.spec.volumes[0].name: {NO_LABEL}, {MOUNT}: Not found: "data"]',
            id="a name that no volume can have",
        ),
        pytest.param(
            a_set([a_claim()], ordinals={"start": -1}),
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            id="a negative ordinal",
        ),
    ],
)
def test_a_claim_template_that_cannot_be_used_is_refused(stateful_set: Json, message: str) -> None:
    async def story(client: ApiClient) -> None:
        code, answer = await client.send("POST", PATH, stateful_set)
        assert code == 422
        assert answer["message"] == f'StatefulSet.apps "db" is invalid: {message}'

    run_with_server(story)


@pytest.mark.parametrize("volumes", [None, [{"name": "data", "emptyDir": {}}]])
def test_a_claim_template_is_a_volume_of_the_pods(volumes: list[Json] | None) -> None:
    async def story(client: ApiClient) -> None:
        stored = await client.create(PATH, a_set([a_claim()], volumes))
        assert stored["spec"]["volumeClaimTemplates"] == [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data"},
                "spec": {**CLAIM, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            }
        ]

    run_with_server(story)


def test_the_number_of_unavailable_pods_needs_a_feature_gate_that_is_off() -> None:
    async def story(client: ApiClient) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
        stored = await client.create(PATH, a_set([a_claim()], updateStrategy=strategy))
        assert stored["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}

    run_with_server(story)
