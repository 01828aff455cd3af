"""Admission policies and their bindings, compiled once for each revision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from cel_expr_python import cel

from quorate.api.codec import Json
from quorate.local.server.admission_rules.expressions import (
    Expression,
    Unsupported,
    compile_expression,
    unsupported,
)
from quorate.local.server.admission_rules.webhooks import OperationRule
from quorate.local.server.storage.store import CompiledObjects, Store

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Match:
    """Resources that a policy or a binding matches."""

    rules: tuple[OperationRule, ...]
    excluded: tuple[OperationRule, ...]
    names: tuple[frozenset[str], ...]
    """the names of the objects that each rule matches; an empty set matches all objects"""
    exact_versions: bool
    namespace_selector: Json
    object_selector: Json


@dataclass(frozen=True, slots=True, eq=False)
class Validation:
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    name: str
    match: Match
    variables: Mapping[str, Expression]
    conditions: tuple[Expression, ...]
    validations: tuple[Validation, ...]
    ignore_failures: bool
    param_kind: Json | None


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    name: str
    policy: str
    match: Match | None
    param_ref: Json | None
    actions: tuple[str, ...]


class AdmissionPolicies:
    """The policies that bindings put in force."""

    def __init__(self, store: Store) -> None:
        self._policies = CompiledObjects(store, POLICIES, compile_policy, "admission policies")
        self._bindings = CompiledObjects(store, BINDINGS, _compile_binding, "admission policy bindings")

    def in_force(self) -> Sequence[tuple[Policy, Binding]]:
        """Return each binding with its policy, by name."""
        bindings = self._bindings.all()
        if not bindings:
            return ()
        policies = {policy.name: policy for policy in self._policies.all()}
        return [(policies[binding.policy], binding) for binding in bindings if binding.policy in policies]


def compile_policy(policy: Json) -> Policy:
    """Compile a stored policy without what this server does not support.  Raises InvalidExpression."""
    spec = policy["spec"]
    variables = {
        variable["name"]: compiled
        for variable in spec.get("variables", ())
        if (compiled := _supported(variable["expression"])) is not None
    }
    conditions = (
        _supported(condition["expression"], cel.Type.BOOL) for condition in spec.get("matchConditions", ())
    )
    return Policy(
        name=policy["metadata"]["name"],
        match=_compile_match(spec["matchConstraints"]),
        variables=variables,
        conditions=tuple(condition for condition in conditions if condition is not None),
        validations=tuple(_validations(spec)),
        ignore_failures=spec["failurePolicy"] == "Ignore",
        param_kind=spec.get("paramKind"),
    )


def unsupported_parts(policy: Json) -> Iterator[str]:
    """Yield a warning for each expression that this server does not evaluate."""
    spec = policy.get("spec", {})
    for field in ("variables", "matchConditions", "validations", "auditAnnotations"):
        for index, part in enumerate(spec.get(field, ())):
            for name in ("expression", "messageExpression", "valueExpression"):
                missing = unsupported(part[name]) if part.get(name) else ""
                if missing:
                    yield f"spec.{field}[{index}].{name} is not evaluated by this server: it uses {missing}"


def _supported(text: str, want: cel.Type = cel.Type.DYN) -> Expression | None:
    try:
        return compile_expression(text, want)
    except Unsupported:
        return None


def _validations(spec: Json) -> Iterator[Validation]:
    for validation in spec.get("validations", ()):
        expression = _supported(validation["expression"], cel.Type.BOOL)
        if expression is None:
            continue
        text = validation.get("messageExpression")
        yield Validation(
            expression,
            validation.get("message", ""),
            _supported(text, cel.Type.STRING) if text else None,
            validation.get("reason", "Invalid"),
        )


def _compile_binding(binding: Json) -> Binding:
    spec = binding["spec"]
    return Binding(
        name=binding["metadata"]["name"],
        policy=spec["policyName"],
        match=_compile_match(spec["matchResources"]) if "matchResources" in spec else None,
        param_ref=spec.get("paramRef"),
        actions=tuple(spec["validationActions"]),
    )


def _compile_match(match: Json) -> Match:
    rules = match.get("resourceRules", ())
    return Match(
        rules=msgspec.convert(rules, tuple[OperationRule, ...]),
        excluded=msgspec.convert(match.get("excludeResourceRules", ()), tuple[OperationRule, ...]),
        names=tuple(frozenset(rule.get("resourceNames", ())) for rule in rules),
        exact_versions=match.get("matchPolicy") == "Exact",
        namespace_selector=match.get("namespaceSelector", {}),
        object_selector=match.get("objectSelector", {}),
    )
