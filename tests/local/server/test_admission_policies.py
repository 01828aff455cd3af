"""ValidatingAdmissionPolicies: parameters, variables, matching, and what is not supported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.server.admission_rules.expressions import (
    Evaluation,
    EvaluationFailed,
    Unsupported,
    compile_expression,
)
from quorate.local.server.admission_rules.policies import compile_policy
from tests.local.api_client import ApiClient, Json, run_with_server
from tests.local.server.validation.strategies import STRATEGIES

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
TEAM_X = {"matchLabels": {"team": "x"}}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


async def put_in_force(client: ApiClient, name: str, policy: Json, **binding: Any) -> None:
    constraints = policy.pop("matchConstraints", {"resourceRules": [RULE]})
    spec = {"matchConstraints": constraints, **policy}
    await client.create(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"], **binding}
    body = {"metadata": {"name": name}, "spec": bound}
    await client.create(f"{GROUP}/validatingadmissionpolicybindings", body)


def a_map(name: str, **data: str) -> Json:
    return {"metadata": {"name": name}, "data": data}


def test_parameters_of_a_policy_are_objects_that_its_binding_names() -> None:
    async def scenario(client: ApiClient) -> None:
        await client.create(MAPS, a_map("limits", keys="1"))
        rule = {**RULE, "operations": ["CREATE"]}
        policy = {
            "matchConstraints": {"resourceRules": [rule]},
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "validations": [
                {"expression": "size(object.data) <= int(params.data.keys)", "message": "too many"}
            ],
        }
        reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
        await put_in_force(client, "keys", policy, paramRef=reference)
        code, _ = await client.send("POST", MAPS, a_map("one", a="1"))
        assert code == 201
        code, refusal = await client.send("POST", MAPS, a_map("two", a="1", b="2"))
        denial = "ValidatingAdmissionPolicy 'keys' with binding 'keys' denied request: too many"
        assert (code, refusal["details"]["causes"]) == (422, [{"message": denial}])
        stale = a_map("two", a="1", b="2")
        stale["metadata"]["resourceVersion"] = "1"  # which is refused after the policy
        assert (await client.send("POST", MAPS, stale))[1]["details"]["causes"] == [{"message": denial}]
        await client.send("DELETE", f"{MAPS}/limits")
        code, refusal = await client.send("POST", MAPS, a_map("three", a="1"))
        assert (code, "no params found" in refusal["message"]) == (422, True)

    run_with_server(scenario)


def test_a_policy_without_binding_is_not_in_force_and_one_never_applies_to_policies() -> None:
    async def scenario(client: ApiClient) -> None:
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
        spec = {"matchConstraints": {"resourceRules": [everything]}, "validations": [{"expression": "false"}]}
        path = f"{GROUP}/validatingadmissionpolicies"
        await client.create(path, {"metadata": {"name": "never"}, "spec": spec})
        assert (await client.send("POST", MAPS, a_map("before")))[0] == 201
        binding = {"metadata": {"name": "b"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}}
        await client.create(f"{GROUP}/validatingadmissionpolicybindings", binding)
        assert (await client.send("POST", MAPS, a_map("after")))[0] == 422
        assert (await client.send("DELETE", f"{MAPS}/before"))[0] == 422
        assert (await client.send("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b"))[0] == 200
        assert (await client.send("DELETE", f"{MAPS}/before"))[0] == 200

    run_with_server(scenario)


@pytest.mark.parametrize(
    ("match", "denied"),
    [
        pytest.param({"resourceRules": [{**RULE, "resourceNames": ["a"]}]}, ["a"], id="names"),
        pytest.param({"resourceRules": [RULE], "excludeResourceRules": [RULE]}, [], id="excluded"),
        pytest.param(
            {"resourceRules": [RULE], "objectSelector": {"matchLabels": {"team": "x"}}},
            ["b"],
            id="object selector",
        ),
        pytest.param(
            {"resourceRules": [RULE], "namespaceSelector": {"matchLabels": {"team": "x"}}},
            [],
            id="namespaces",
        ),
    ],
)
def test_what_a_policy_matches(match: Json, denied: list[str]) -> None:
    async def scenario(client: ApiClient) -> None:
        policy = {"matchConstraints": match, "validations": [{"expression": "false"}]}
        await put_in_force(client, "p", policy)
        refused = []
        for name, labels in (("a", {}), ("b", {"team": "x"})):
            code, _ = await client.send("POST", MAPS, {"metadata": {"name": name, "labels": labels}})
            refused += [name] if code == 422 else []
        assert refused == denied

    run_with_server(scenario)


def test_what_is_not_supported_is_said_and_not_evaluated() -> None:
    async def scenario(client: ApiClient) -> None:
        policy = {"validations": [{"expression": "quantity(object.data.size).isLessThan(quantity('1Gi'))"}]}
        await put_in_force(client, "sizes", policy)
        assert (await client.send("POST", MAPS, a_map("a", size="2Gi")))[0] == 201

    run_with_server(scenario)
    with pytest.raises(Unsupported, match="quantity"):
        compile_expression("quantity('1Gi')")


def test_an_error_in_a_variable_matters_only_where_it_is_used() -> None:
    variables = {
        "broken": compile_expression("object.missing"),
        "uses": compile_expression("variables.broken + 1"),
        "fine": compile_expression("size(object.items)"),
    }
    evaluation = Evaluation({"object": {"items": [1, 2]}}, variables)
    assert evaluation.value(compile_expression("variables.fine == 2")) is True
    with pytest.raises(EvaluationFailed):
        evaluation.value(compile_expression("variables.uses == 2"))


@given(count=st.integers(1, 50))
def test_a_chain_of_variables_of_any_length_has_a_value(count: int) -> None:
    first = {"v0": compile_expression("1")}
    chain = {f"v{n}": compile_expression(f"variables.v{n - 1} + 1") for n in range(1, count)}
    last = len(chain)
    expression = compile_expression(f"variables.v{last}")
    assert Evaluation({}, first | chain).value(expression) == last + 1


def test_a_variable_that_uses_itself_has_no_value() -> None:
    evaluation = Evaluation(
        {}, {"a": compile_expression("variables.b"), "b": compile_expression("variables.a")}
    )
    with pytest.raises(EvaluationFailed):
        evaluation.value(compile_expression("variables.a"))


TEXTS = ("1 +", "1 == 1", "'text'", "1", "object.data", "quantity('1')", "[object]")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("field", ["variable", "condition", "validation", "message"])
def test_a_policy_that_is_stored_can_be_compiled(field: str, text: str) -> None:
    """A policy that is valid and does not compile would not be in force, without a word to its author."""
    texts = {"variable": "1", "condition": "true", "validation": "true", "message": "'no'", field: text}
    spec = {
        "matchConstraints": {"resourceRules": [RULE]},
        "variables": [{"name": "v", "expression": texts["variable"]}],
        "matchConditions": [{"name": "c", "expression": texts["condition"]}],
        "validations": [{"expression": texts["validation"], "messageExpression": texts["message"]}],
    }
    policy = {"metadata": {"name": "p"}, "spec": spec}
    strategy = STRATEGIES["validatingadmissionpolicies.admissionregistration.k8s.io"]
    strategy.default(policy)
    if not strategy.validate(policy):
        assert compile_policy(policy).name == "p"
    is_usable = text in ("object.data", "quantity('1')", *USABLE[field])
    assert bool(strategy.validate(policy)) is not is_usable


USABLE = {"variable": TEXTS[1:], "condition": ["1 == 1"], "validation": ["1 == 1"], "message": ["'text'"]}
"""The texts with a type that the field may have; the type of ``object.data`` is known at evaluation only."""
