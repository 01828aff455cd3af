"""Webhook configurations with their match conditions, compiled once for each revision.

Knowingly missing: the variable ``authorizer``; validation rejects a match condition that uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from cel_expr_python import cel

from quorate.api.codec import Json
from quorate.local.objects.cel.evaluation import Budget, BudgetExceeded, evaluate
from quorate.local.objects.cel.worker import environment
from quorate.local.objects.crd.cel import FieldTree, project, referenced_fields
from quorate.local.server.admission_rules.expressions import check_expression
from quorate.local.server.storage.store import CompiledObjects, Store

_VARIABLES = ("object", "oldObject", "request")
_ENVIRONMENT = environment(_VARIABLES)


class ConditionError(Exception):
    """The evaluation of an expression failed for a request."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name, self.message = name, message

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True, slots=True, eq=False)
class MatchCondition:
    name: str
    text: str
    fields: dict[str, FieldTree]
    """the fields that it can read, by variable"""


def compile_condition(name: str, text: str) -> MatchCondition:
    """Compile an expression.  Raises InvalidExpression."""
    check_expression(_ENVIRONMENT, text, cel.Type.BOOL)
    return MatchCondition(name, text, {name: referenced_fields(text, name) for name in _VARIABLES})


def all_conditions_met(conditions: Sequence[MatchCondition], request: Json) -> bool:
    """Return True if a request meets all conditions.

    A false condition decides even if others fail.  Raises ConditionError if none is false and one fails.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {name: part for name, part in request.items() if name not in ("object", "oldObject")},
    }
    expressions = [
        (condition.text, {name: project(value, condition.fields[name]) for name, value in variables.items()})
        for condition in conditions
    ]
    try:
        results = evaluate(expressions, Budget())
    except BudgetExceeded as exceeded:
        raise ConditionError(conditions[0].name, str(exceeded)) from exceeded
    if any(result.value is False for result in results):
        return False
    for condition, result in zip(conditions, results, strict=True):
        if result.value is not True:
            raise ConditionError(condition.name, result.error or "must evaluate to bool")
    return True


REVIEW_VERSIONS = ("v1", "v1beta1")
"""Versions of AdmissionReview and ConversionReview that this server sends."""
MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"


class OperationRule(msgspec.Struct, frozen=True, rename="camel"):
    """The operations and resources that a rule matches; ``*`` matches everything."""

    operations: frozenset[str]
    api_groups: frozenset[str]
    api_versions: frozenset[str]
    resources: frozenset[str]
    scope: str

    def matches(
        self, operation: str, group: str, version: str, plural: str, subresource: str, namespaced: bool
    ) -> bool:
        return (
            not self.operations.isdisjoint((operation, "*"))
            and not self.api_groups.isdisjoint((group, "*"))
            and not self.api_versions.isdisjoint((version, "*"))
            and not self.resources.isdisjoint(_resource_patterns(plural, subresource))
            and (self.scope == "*" or (self.scope == "Namespaced") == namespaced)
        )


def _resource_patterns(plural: str, subresource: str) -> tuple[str, ...]:
    """Return the patterns that match a resource or a subresource."""
    if not subresource:
        return plural, "*", "*/*", f"{plural}/*"
    return f"{plural}/{subresource}", f"*/{subresource}", f"{plural}/*", "*/*"


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    name: str
    client_config: Json
    rules: tuple[OperationRule, ...]
    exact_versions: bool
    """match only the versions in the rules, not other versions of the same kind"""
    ignore_failures: bool
    """failurePolicy Ignore: continue if the call fails"""
    namespace_selector: Json
    object_selector: Json
    match_conditions: tuple[MatchCondition, ...]
    timeout_s: int
    review_version: str
    reinvoke: bool
    """reinvocationPolicy IfNeeded: call again after another webhook changes the object"""


class WebhookConfigurations:
    """The registered webhooks in the order of calls: by configuration name, then as listed."""

    def __init__(self, store: Store) -> None:
        self._webhooks = {
            resource: CompiledObjects(store, resource, _compile_webhooks, "admission webhooks")
            for resource in (MUTATING, VALIDATING)
        }

    def for_resource(self, resource: str) -> Sequence[Webhook]:
        """Return the webhooks of a resource, ``MUTATING`` or ``VALIDATING``."""
        return [webhook for webhooks in self._webhooks[resource].all() for webhook in webhooks]


def _compile_webhooks(configuration: Json) -> tuple[Webhook, ...]:
    return tuple(map(_compile_webhook, configuration.get("webhooks", ())))


def _compile_webhook(configuration: Json) -> Webhook:
    return Webhook(
        name=configuration["name"],
        client_config=configuration["clientConfig"],
        rules=msgspec.convert(configuration.get("rules", ()), tuple[OperationRule, ...]),
        exact_versions=configuration["matchPolicy"] == "Exact",
        ignore_failures=configuration["failurePolicy"] == "Ignore",
        namespace_selector=configuration["namespaceSelector"],
        object_selector=configuration["objectSelector"],
        match_conditions=tuple(
            compile_condition(condition["name"], condition["expression"])
            for condition in configuration.get("matchConditions", ())
        ),
        timeout_s=configuration["timeoutSeconds"],
        review_version=next(v for v in configuration["admissionReviewVersions"] if v in REVIEW_VERSIONS),
        reinvoke=configuration.get("reinvocationPolicy") == "IfNeeded",
    )
