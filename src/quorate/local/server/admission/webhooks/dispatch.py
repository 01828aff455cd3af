"""What the registered webhooks say to a write: mutating ones change it in turn, validating ones judge it.

When none is registered a write costs one look into an empty table.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from quorate.local.objects.patch.json_patches import json_patch
from quorate.local.server.admission.webhooks import attributes, matching, review
from quorate.local.server.admission.webhooks.attributes import Attempt, attempt
from quorate.local.server.admission.webhooks.configurations import MUTATING, VALIDATING, Webhook
from quorate.local.server.admission.webhooks.match_conditions import Undecided, hold
from quorate.local.server.errors import StatusError, forbidden, internal_error
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import Call

Json = dict[str, Any]


async def mutated(
    call: Call,
    operation: str,
    new: Json,
    old: Json | None = None,
    kind: Kind | None = None,
) -> Json:
    """The object as the mutating webhooks want it.  ``kind``: of the object, if it is not the request's.

    Raises StatusError when one refuses, or cannot be asked and may not be left out.
    """
    webhooks = call.context.webhooks.of(MUTATING)
    if not webhooks:
        return new
    changed = await _mutate(call, webhooks, attempt(call, operation, new, old, kind, None))
    assert changed is not None, "an object stays one"
    return changed


async def admitted(
    call: Call,
    operation: str,
    new: Json | None,
    old: Json | None = None,
    kind: Kind | None = None,
) -> None:
    """Ask the validating webhooks, all at once.  Raises StatusError as ``mutated`` does."""
    webhooks = call.context.webhooks.of(VALIDATING)
    if webhooks:
        await _validate(call, webhooks, attempt(call, operation, new, old, kind, None))


async def deletion_admitted(call: Call, old: Json, options: Json) -> None:
    """Ask the webhooks of both sorts whether an object may go.  Raises StatusError as ``mutated`` does."""
    mutating, validating = call.context.webhooks.of(MUTATING), call.context.webhooks.of(VALIDATING)
    if mutating or validating:
        given = attempt(call, "DELETE", None, old, None, options)
        await _mutate(call, mutating, given)
        await _validate(call, validating, given)


async def _mutate(call: Call, webhooks: Sequence[Webhook], given: Attempt) -> Json | None:
    """One round, and a second for those who want to see what others have changed after them."""
    given, again = await _round(call, webhooks, given)
    if again:
        given, _ = await _round(call, again, given)
    return given.new


async def _round(
    call: Call, webhooks: Sequence[Webhook], given: Attempt
) -> tuple[Attempt, Sequence[Webhook]]:
    asked: list[Webhook] = []  # that want to be asked again once another one changes the object
    again: dict[str, Webhook] = {}
    for webhook in webhooks:
        verdict = await _ask(call, webhook, given, mutating=True)
        if verdict is None:
            continue
        told, answer = verdict
        if answer.patch and given.new is not None:
            new = await _patched(call, webhook, answer.patch, told, given)
            if new != given.new:
                given = attributes.replaced(given, new)
                again |= {other.name: other for other in asked}
        if webhook.called_again:
            asked.append(webhook)
    return given, list(again.values())


async def _patched(call: Call, webhook: Webhook, patch: list[Any], told: Attempt, given: Attempt) -> Json:
    """The object with a webhook's patch, in the version that was asked for.

    Fields that the kind does not have are dropped as they are from any request.
    """
    new = told.new
    assert new is not None, "only an object is patched"
    for operation in patch:
        try:
            new = json_patch(new, [operation])
        except StatusError as refusal:
            raise internal_error(_mismatch(operation)) from refusal
    try:
        read = told.kind.rules.decode(new).object
    except StatusError as refusal:
        raise internal_error(f'webhook "{webhook.name}": {refusal.message}') from refusal
    told.kind.rules.default(read)
    return read if told.path is given.path else await attributes.convert(read, told.path, given.path)


def _mismatch(operation: Any) -> str:
    if not isinstance(operation, dict):
        return "a JSON patch is a list of operations"
    what, path = operation.get("op"), operation.get("path")
    return f'{what} operation does not apply: doc is missing path: "{path}": missing value'


async def _validate(call: Call, webhooks: Sequence[Webhook], given: Attempt) -> None:
    results = await asyncio.gather(
        *(_ask(call, webhook, given, mutating=False) for webhook in webhooks), return_exceptions=True
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def _ask(
    call: Call, webhook: Webhook, given: Attempt, *, mutating: bool
) -> tuple[Attempt, review.Verdict] | None:
    """What a webhook says to an attempt, and how it was told; None if it is not asked, or left out.

    Raises StatusError if it refuses, or cannot be asked and may not be left out.
    """
    wanted = matching.version_for(call.context, webhook, given)
    if wanted is None:
        return None
    told = given if wanted is given.path else await attributes.in_version(given, wanted)
    request = review.request_of(call.context.new_uid(), call.user, told, given)
    try:
        if not hold(webhook.conditions, request):
            return None
        verdict = await review.ask(call.context.outside, webhook, request, mutating=mutating)
    except Undecided as undecided:
        if webhook.may_fail:
            return None
        raise forbidden(given.path.group, given.path.plural, given.name, str(undecided)) from undecided
    except review.CallFailed as failure:
        if webhook.may_fail:
            return None
        raise internal_error(str(failure)) from failure
    call.warnings.extend(verdict.warnings)
    if not verdict.allowed:
        raise _denied(webhook, verdict.status)
    return told, verdict


def _denied(webhook: Webhook, status: Json) -> StatusError:
    """The refusal in the webhook's own words, under its name."""
    said = status.get("message") or status.get("reason")
    tail = f": {said}" if said else " without explanation"
    message = f'admission webhook "{webhook.name}" denied the request{tail}'
    code = max(int(status.get("code") or 0), 400)
    return StatusError(code, status.get("reason") or "", message, status.get("details"))
