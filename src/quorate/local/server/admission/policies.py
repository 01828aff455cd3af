"""The decision of admission policies about one request."""

from collections.abc import Sequence
from typing import Final

from quorate.api.codec import Json
from quorate.local.objects.cel.evaluation import in_thread
from quorate.local.objects.errors import StatusError, status_details
from quorate.local.server.admission import matching, review
from quorate.local.server.admission.matching import AdmissionAttributes, convert_attributes
from quorate.local.server.admission_rules.expressions import Evaluation, EvaluationFailed
from quorate.local.server.admission_rules.policies import Binding, Match, Policy, Validation
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.selectors import selector_matches
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.storage.store import Entry, Key

CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
NO_PARAMETERS: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"


async def enforce(
    context: RequestContext, in_force: Sequence[tuple[Policy, Binding]], attributes: AdmissionAttributes
) -> None:
    """Evaluate the policies for a request; warn of violations, or reject it.  Raises StatusError."""
    for policy, binding in in_force:
        version = _matching_version(context, policy.match, attributes)
        if version is None or (
            binding.match and _matching_version(context, binding.match, attributes) is None
        ):
            continue
        sent = attributes
        if version is not attributes.request_kind:
            sent = await convert_attributes(attributes, version)
        parameters = _parameters(context, policy, binding, sent)
        if parameters is None:
            violations = [(NO_PARAMETERS, "Invalid")]
        else:
            inputs = _inputs(context, sent, attributes)
            violations = await in_thread(_violations, policy, inputs, parameters)
        for violation, reason in violations:
            _act(context, policy, binding, attributes, violation, reason)


def _matching_version(context: RequestContext, match: Match, attributes: AdmissionAttributes) -> Kind | None:
    """Return the version of the kind in which a policy or a binding matches; None if it does not match."""
    if matching.is_covered(match.excluded, attributes, attributes.request_kind):
        return None
    if not match.rules:  # of a binding, which matches what its policy does
        selected = matching.matches_selectors(context.server, match, attributes)
        return attributes.request_kind if selected else None
    version = matching.matching_version(context.server, match, attributes)
    if version is None or not any(match.names):
        return version
    named = zip(match.rules, match.names, strict=True)
    covering = [rule for rule, names in named if not names or attributes.name in names]
    return version if matching.is_covered(covering, attributes, attributes.request_kind) else None


def _inputs(context: RequestContext, sent: AdmissionAttributes, requested: AdmissionAttributes) -> Json:
    """Return the variables of the expressions besides the parameters."""
    request = review.admission_request(context.server.new_uid(), context.user, sent, requested)
    return {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {name: value for name, value in request.items() if name not in ("object", "oldObject")},
        "namespaceObject": _namespace(context, sent),
    }


def _violations(policy: Policy, inputs: Json, parameters: Sequence[Json | None]) -> list[tuple[str, str]]:
    """Return the message and the reason of each validation of a policy that a request violates."""
    violations: list[tuple[str, str]] = []
    for params in parameters:
        evaluation = Evaluation(inputs | {"params": params}, policy.variables)
        try:
            if not all(evaluation.value(condition) for condition in policy.conditions):
                continue
        except EvaluationFailed as error:
            if not policy.ignore_failures:
                violations.append((f"match condition: {error}", "Invalid"))
            continue
        for validation in policy.validations:
            try:
                if evaluation.value(validation.expression) is not True:
                    violations.append((_message(evaluation, validation), validation.reason))
            except EvaluationFailed as error:
                if not policy.ignore_failures:
                    text = validation.expression.text
                    violations.append((f"expression '{text}' resulted in error: {error}", "Invalid"))
    return violations


def _message(evaluation: Evaluation, validation: Validation) -> str:
    if validation.message_expression is not None:
        try:
            message = evaluation.value(validation.message_expression)
        except EvaluationFailed:
            message = ""
        if isinstance(message, str) and message.strip() and "\n" not in message:
            return message
    return validation.message or f"failed expression: {validation.expression.text}"


def _namespace(context: RequestContext, attributes: AdmissionAttributes) -> Json | None:
    if not attributes.namespace or attributes.is_namespace:
        return None
    entry = context.server.store.get(Key("namespaces", "", attributes.namespace))
    return entry.decode() if entry else None


def _parameters(
    context: RequestContext, policy: Policy, binding: Binding, attributes: AdmissionAttributes
) -> list[Json | None] | None:
    """Return the parameter objects to evaluate a policy with; None if they are missing and must exist."""
    reference = binding.param_ref
    if policy.param_kind is None or reference is None:
        return [None]
    group, _, version = policy.param_kind["apiVersion"].rpartition("/")
    kind = next(
        (
            kind
            for kind in context.server.registry
            if (kind.group, kind.version, kind.kind) == (group, version, policy.param_kind["kind"])
        ),
        None,
    )
    entries: list[Entry] = []
    if kind is not None:
        namespace = (reference.get("namespace") or attributes.namespace) if kind.namespaced else ""
        store = context.server.store
        if reference.get("name"):
            entry = store.get(Key(kind.resource, namespace, reference["name"]))
            entries = [entry] if entry else []
        else:
            selector = reference.get("selector", {})
            entries = [
                entry
                for entry in store.entries(kind.resource, namespace)
                if selector_matches(selector, entry.labels)
            ]
    if not entries:
        return [] if reference.get("parameterNotFoundAction") == "Allow" else None
    return [entry.decode() for entry in entries]


def _act(
    context: RequestContext,
    policy: Policy,
    binding: Binding,
    attributes: AdmissionAttributes,
    violation: str,
    reason: str,
) -> None:
    """Warn of a violation, or raise StatusError.  The action Audit has no log here."""
    where = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
    if "Warn" in binding.actions:
        context.warnings.append(f"Validation failed for {where}: {violation}")
    if "Deny" in binding.actions:
        kind = attributes.request_kind
        denial = f"{where} denied request: {violation}"
        details = status_details(kind.group, kind.plural, attributes.name) | {"causes": [{"message": denial}]}
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        message = f'{resource} "{attributes.name}" is forbidden: {denial}'
        raise StatusError(CODES.get(reason, 422), reason, message, details)
