"""CEL expressions that take too long: they are stored, and refuse the writes for which they are evaluated."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.local.api_client import ApiClient, Json, run_with_server
from tests.local.objects.test_cel_evaluation import WORD, doubled, slow

pytestmark = pytest.mark.slow

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MAPS = "/api/v1/namespaces/default/configmaps"
A_MAP: Json = {"metadata": {"name": "a"}, "data": {"word": WORD}}
TIME = "more than 1 s of processor time"
PAUSE_S = 0.02  # between requests: without it they take as much processor time as the expression
MEMORY = "more than 1024 MiB of memory"


def a_definition(rule: str) -> Json:
    spec: Json = {
        "type": "object",
        "properties": {
            "word": {
                "type": "string",
                "x-kubernetes-validations": [{"rule": "size(self) >= 0"}, {"rule": f"self == '' || {rule}"}],
            }
        },
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "widgets", "kind": "Widget"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    body = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "widgets.example.com"}, "spec": body}


async def write_a_widget(client: ApiClient, rule: str) -> tuple[int, Any]:
    await client.create(DEFINITIONS, a_definition(rule))
    await client.until(WIDGETS, lambda code, _: code == 200)
    assert (await client.send("POST", WIDGETS, {"metadata": {"name": "b"}, "spec": {"word": ""}}))[0] == 201
    return await client.send("POST", WIDGETS, {"metadata": {"name": "a"}, "spec": {"word": WORD}})


async def write_under_a_policy(client: ApiClient, expression: str) -> tuple[int, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name == 'a'"}],
        "validations": [{"expression": expression}],
    }
    await client.create(f"{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    await client.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    return await client.send("POST", MAPS, A_MAP)


async def write_before_a_webhook(client: ApiClient, expression: str) -> tuple[int, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    webhook = {
        "name": "w.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "long", "expression": expression}],
    }
    configuration = {"metadata": {"name": "w"}, "webhooks": [webhook]}
    await client.create(f"{ADMISSION}/validatingwebhookconfigurations", configuration)
    return await client.send("POST", MAPS, A_MAP)


Write = Callable[[ApiClient, str], Coroutine[Any, Any, tuple[int, Any]]]


@pytest.mark.parametrize(
    ("write", "expression", "code", "message"),
    [
        pytest.param(write_a_widget, slow("self"), 422, TIME, id="a slow rule"),
        pytest.param(write_a_widget, doubled(6), 422, MEMORY, id="a rule with a large value"),
        pytest.param(write_under_a_policy, slow("object.data.word"), 422, TIME, id="a slow policy"),
        pytest.param(write_before_a_webhook, slow("object.data.word"), 403, TIME, id="a slow condition"),
    ],
)  # fmt: skip
def test_a_write_that_takes_too_long_to_evaluate_is_refused_and_delays_no_other_request(
    write: Write, expression: str, code: int, message: str
) -> None:
    async def scenario(client: ApiClient) -> None:
        writing = asyncio.create_task(write(client, expression))
        answered = 0
        while not writing.done():
            assert (await client.send("GET", f"{MAPS}/none"))[0] == 404
            answered += 1
            await asyncio.wait([writing], timeout=PAUSE_S)
        refused, status = await writing
        assert (refused, message in status["message"]) == (code, True), status
        assert answered > 10
        assert (await client.send("POST", MAPS, {"metadata": {"name": "other"}}))[0] in (201, code)

    run_with_server(scenario)
