"""Calls of admission webhooks: mutating ones in order, validating ones concurrently.

Without a registered webhook a write costs one lookup in an empty table.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.cel.evaluation import in_thread
from quorate.local.objects.errors import StatusError, forbidden, internal_error
from quorate.local.objects.patch.json_patches import json_patch
from quorate.local.server.admission import matching, review
from quorate.local.server.admission.matching import (
    AdmissionAttributes,
    admission_attributes,
    convert_attributes,
    convert_object,
    with_object,
)
from quorate.local.server.admission.policies import enforce
from quorate.local.server.admission_rules.webhooks import (
    MUTATING,
    VALIDATING,
    ConditionError,
    Webhook,
    all_conditions_met,
)
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext


async def mutate(
    context: RequestContext, operation: str, new: Json, old: Json | None = None, kind: Kind | None = None
) -> Json:
    """Return the object after the mutating webhooks.

    ``kind``: of the object, if not that of the request.

    Raises StatusError if a webhook rejects the request, or if a call fails and failurePolicy is Fail.
    """
    webhooks = context.server.webhook_configurations.for_resource(MUTATING)
    if not webhooks:
        return new
    changed = await _mutate(context, webhooks, admission_attributes(context, operation, new, old, kind, None))
    assert changed is not None, "mutation does not delete an object"
    return changed


async def validate(
    context: RequestContext,
    operation: str,
    new: Json | None,
    old: Json | None = None,
    kind: Kind | None = None,
) -> None:
    """Evaluate the admission policies, and call the validating webhooks concurrently.

    Raises StatusError as ``mutate`` does.
    """
    webhooks = context.server.webhook_configurations.for_resource(VALIDATING)
    policies = context.server.admission_policies.in_force()
    if webhooks or policies:
        attributes = admission_attributes(context, operation, new, old, kind, None)
        await enforce(context, policies, attributes)
        await _validate(context, webhooks, attributes)


async def admit_deletion(context: RequestContext, old: Json, options: Json) -> None:
    """Call mutating webhooks, admission policies and validating webhooks for a deletion.

    Raises StatusError as ``mutate`` does.
    """
    configurations = context.server.webhook_configurations
    mutating, validating = configurations.for_resource(MUTATING), configurations.for_resource(VALIDATING)
    policies = context.server.admission_policies.in_force()
    if mutating or validating or policies:
        attributes = admission_attributes(context, "DELETE", None, old, None, options)
        await _mutate(context, mutating, attributes)
        await enforce(context, policies, attributes)
        await _validate(context, validating, attributes)


async def _mutate(
    context: RequestContext, webhooks: Sequence[Webhook], attributes: AdmissionAttributes
) -> Json | None:
    """Run one round, and a second for the webhooks that have to be reinvoked."""
    attributes, to_reinvoke = await _run_round(context, webhooks, attributes)
    if to_reinvoke:
        attributes, _ = await _run_round(context, to_reinvoke, attributes)
    return attributes.new


async def _run_round(
    context: RequestContext, webhooks: Sequence[Webhook], attributes: AdmissionAttributes
) -> tuple[AdmissionAttributes, Sequence[Webhook]]:
    reinvocable: list[Webhook] = []  # with reinvocationPolicy IfNeeded
    to_reinvoke: dict[str, Webhook] = {}
    for webhook in webhooks:
        outcome = await _call(context, webhook, attributes, mutating=True)
        if outcome is None:
            continue
        sent, response = outcome
        if response.patch and attributes.new is not None:
            new = await _apply_patch(context, webhook, response.patch, sent, attributes)
            if new != attributes.new:
                attributes = with_object(attributes, new)
                to_reinvoke |= {earlier.name: earlier for earlier in reinvocable}
        if webhook.reinvoke:
            reinvocable.append(webhook)
    return attributes, list(to_reinvoke.values())


async def _apply_patch(
    context: RequestContext,
    webhook: Webhook,
    patch: list[Any],
    sent: AdmissionAttributes,
    attributes: AdmissionAttributes,
) -> Json:
    """Apply a webhook's patch and return the object in the requested version.

    Unknown fields are dropped, as for any request.
    """
    new = sent.new
    assert new is not None, "only an object is patched"
    for operation in patch:
        try:
            new = json_patch(new, [operation])
        except StatusError as error:
            raise internal_error(_patch_error(operation)) from error
    try:
        decoded = sent.kind.strategy.decode(new).object
    except StatusError as error:
        raise internal_error(f'webhook "{webhook.name}": {error.message}') from error
    sent.kind.strategy.default(decoded)
    return (
        decoded
        if sent.request_kind is attributes.request_kind
        else await convert_object(decoded, sent.request_kind, attributes.request_kind)
    )


def _patch_error(operation: Any) -> str:
    if not isinstance(operation, dict):
        return "a JSON patch is a list of operations"
    operation_name, path = operation.get("op"), operation.get("path")
    return f'{operation_name} operation does not apply: doc is missing path: "{path}": missing value'


async def _validate(
    context: RequestContext, webhooks: Sequence[Webhook], attributes: AdmissionAttributes
) -> None:
    results = await asyncio.gather(
        *(_call(context, webhook, attributes, mutating=False) for webhook in webhooks), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _call(
    context: RequestContext, webhook: Webhook, attributes: AdmissionAttributes, *, mutating: bool
) -> tuple[AdmissionAttributes, review.AdmissionResponse] | None:
    """Call a webhook; return the attributes sent and the response, or None without a result.

    Raises StatusError if it rejects the request, or if the call fails and failurePolicy is Fail.
    """
    version = matching.matching_version(context.server, webhook, attributes)
    if version is None:
        return None
    sent = attributes if version is attributes.request_kind else await convert_attributes(attributes, version)
    request = review.admission_request(context.server.new_uid(), context.user, sent, attributes)
    try:
        if webhook.match_conditions and not await in_thread(
            all_conditions_met, webhook.match_conditions, request
        ):
            return None
        outcome = await review.call_webhook(context.server.backends, webhook, request, mutating=mutating)
    except ConditionError as error:
        if webhook.ignore_failures:
            return None
        raise forbidden(
            attributes.request_kind.group, attributes.request_kind.plural, attributes.name, str(error)
        ) from error
    except review.WebhookCallError as error:
        if webhook.ignore_failures:
            return None
        raise internal_error(str(error)) from error
    context.warnings.extend(outcome.warnings)
    if not outcome.allowed:
        raise _denied(webhook, outcome.status)
    return sent, outcome


def _denied(webhook: Webhook, status: Json) -> StatusError:
    """Return the error for a rejection, with the webhook's name and message."""
    explanation = status.get("message") or status.get("reason")
    tail = f": {explanation}" if explanation else " without explanation"
    message = f'admission webhook "{webhook.name}" denied the request{tail}'
    code = max(int(status.get("code") or 0), 400)
    return StatusError(code, status.get("reason") or "", message, status.get("details"))
