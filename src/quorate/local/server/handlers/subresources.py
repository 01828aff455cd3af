"""Subresources other than status and scale: binding, eviction, finalize, token."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import msgspec

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server.admission import plugins
from quorate.local.server.admission import webhooks as webhooks
from quorate.local.server.auth.service_account_tokens import API_AUDIENCES, BOUND_RESOURCES, ObjectReference
from quorate.local.server.handlers import delete, disruption_budgets, resource_metrics, update
from quorate.local.server.registry.builtin import typed
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import RequestContext, timestamp
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.storage.store import Key

TOKEN_REQUEST = typed(Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", True))
DEFAULT_LIFETIME_S = 3600
MIN_LIFETIME_S = 600
MAX_LIFETIME_S = 2**32


async def create_token(context: RequestContext) -> ApiResponse:
    """Issue a token.  Raises StatusError: 404 for the account, 409 for the uid of the bound object."""
    account = context.decode(await context.current())
    request = await read_object(context, TOKEN_REQUEST)
    spec = request.setdefault("spec", {})
    spec["audiences"] = spec.get("audiences") or list(API_AUDIENCES)
    lifetime_s = spec["expirationSeconds"] = spec.get("expirationSeconds") or DEFAULT_LIFETIME_S
    _check_lifetime(lifetime_s)
    bound = spec.get("boundObjectRef")
    tokens = context.server.tokens
    issued = tokens.service_accounts.issue(
        account, spec["audiences"], lifetime_s, _bound_objects(context, bound) if bound else {}
    )
    request["metadata"] = {
        "name": context.name,
        "namespace": context.namespace,
        "creationTimestamp": context.server.timestamp(),
    }
    request["status"] = {"token": issued.token, "expirationTimestamp": timestamp(issued.expires_at)}
    return responses.document(context, request, 201)


def _check_lifetime(lifetime_s: int) -> None:
    path, group, kind = "spec.expirationSeconds", TOKEN_REQUEST.group, TOKEN_REQUEST.kind
    if lifetime_s < MIN_LIFETIME_S:
        message = "may not specify a duration less than 10 minutes"
        raise errors.invalid(group, kind, "", [errors.invalid_value(path, lifetime_s, message)])
    if lifetime_s > MAX_LIFETIME_S:
        message = "may not specify a duration larger than 2^32 seconds"
        raise errors.invalid(group, kind, "", [errors.invalid_value(path, lifetime_s, message)])


def _bound_objects(context: RequestContext, reference: Json) -> dict[str, ObjectReference]:
    """Return, by kind, the reference of the bound object and, if it is a bound Pod, of its Node."""
    kind, name, uid = (reference.get(field, "") for field in ("kind", "name", "uid"))
    resource = BOUND_RESOURCES.get(kind)
    if resource is None:
        raise errors.bad_request(f"cannot bind token for serviceaccount to type {kind}")
    entry = context.server.store.get(Key(resource, "" if kind == "Node" else context.namespace, name))
    if entry is None:
        raise errors.not_found("", resource, name)
    obj = entry.decode()
    current_uid = obj["metadata"]["uid"]
    if uid and uid != current_uid:
        raise errors.conflict(
            "", resource, name, f"the UID in the bound object reference ({uid}) does not match"
        )
    bound = {kind: ObjectReference(name, current_uid)}
    node_name = obj["spec"].get("nodeName", "") if kind == "Pod" else ""
    if node_name:
        node = context.server.store.get(Key(BOUND_RESOURCES["Node"], "", node_name))
        bound["Node"] = ObjectReference(node_name, node.decode()["metadata"]["uid"] if node else "")
    return bound


BINDING = typed(Kind("", "v1", "Binding", "bindings", True))
EVICTION = typed(Kind("policy", "v1", "Eviction", "evictions", True))


async def bind(context: RequestContext) -> ApiResponse:
    """POST pods/x/binding: bind the pod to a node.  Raises StatusError(409) if it is bound or gated."""
    dry_run = context.dry_run("CreateOptions")
    binding = await read_object(context, BINDING)
    if context.info.resource == "pods" and binding.get("metadata", {}).get("name", "") != context.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if not (binding.get("target") or {}).get("name"):
        raise errors.internal("target.name: Required value")
    binding.setdefault("metadata", {}).setdefault("namespace", context.namespace)
    plugins.require_namespace(context, binding)
    binding = await webhooks.mutate(context, "CREATE", binding, kind=BINDING)
    await webhooks.validate(context, "CREATE", binding, kind=BINDING)
    target, uid = binding["target"], binding["metadata"].get("uid")
    if target.get("kind") not in (None, "", "Node"):
        rule = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise errors.internal(rule)
    labels: Json = dict(binding["metadata"].get("labels") or {})
    if target.get("kind") == "Node":
        labels |= plugins.topology_labels(context, target["name"])

    def bound(pod: Json) -> Json:
        update.check_uid(context, uid, pod["metadata"]["uid"])
        if pod["metadata"].get("deletionTimestamp"):
            message = f"pod {context.name} is being deleted, cannot be assigned to a host"
            raise errors.conflict("", "pods/binding", context.name, message)
        if pod["spec"].get("nodeName"):
            message = f'pod {context.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise errors.conflict("", "pods/binding", context.name, message)
        if pod["spec"].get("schedulingGates"):
            message = f"pod {context.name} has non-empty .spec.schedulingGates"
            raise errors.conflict("", "pods/binding", context.name, message)
        pod["spec"]["nodeName"] = target["name"]
        for field, values in (("annotations", binding["metadata"].get("annotations")), ("labels", labels)):
            if values:
                pod["metadata"].setdefault(field, {}).update(values)
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        conditions = [c for c in status.get("conditions", []) if c.get("type") != "PodScheduled"]
        now = context.server.timestamp()
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        )
        status["conditions"] = conditions
        return pod

    await update.update_unchecked(context, bound, dry_run)
    return responses.document(context, SUCCESS, 201)


async def bind_by_name(context: RequestContext) -> ApiResponse:
    """POST bindings: the deprecated form, with the name of the pod in the body."""
    binding = await read_object(context, BINDING)
    name = binding.get("metadata", {}).get("name", "")
    pods = context.server.registry.find("", "v1", "pods")
    assert pods is not None, "a built-in kind"
    info = replace(context.info, resource="pods", name=name, subresource="binding")
    return await bind(replace(context, info=info, kind=pods))


SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def evict(context: RequestContext) -> ApiResponse:
    """POST pods/x/eviction: delete the pod, unless this violates a disruption budget."""
    eviction = await read_object(context, EVICTION)
    if eviction.get("metadata", {}).get("name") != context.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    plugins.require_namespace(context, eviction)
    eviction = await webhooks.mutate(context, "CREATE", eviction, kind=EVICTION)
    await webhooks.validate(context, "CREATE", eviction, kind=EVICTION)
    options = msgspec.convert(eviction.get("deleteOptions") or {}, delete.DeleteOptions)
    if context.dry_run("CreateOptions"):
        options = msgspec.structs.replace(options, dry_run=("All",))
    pod = context.decode(await context.current())
    await disruption_budgets.take_disruption(context, pod, dry_run=bool(options.dry_run))
    if not options.dry_run:
        await update.update_unchecked(context, partial(_with_disruption_target, context), dry_run=False)
    await delete.delete_current(context, delete.normalize_options(options), admitted=True)
    return responses.document(context, SUCCESS, 201)


def _with_disruption_target(context: RequestContext, pod: Json) -> Json:
    """Return the pod with the condition that its eviction was requested."""
    status = pod.setdefault("status", {})
    conditions = [c for c in status.get("conditions", []) if c.get("type") != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": context.server.timestamp(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*conditions, condition]
    return pod


async def finalize(context: RequestContext) -> ApiResponse:
    """PUT namespaces/x/finalize: set spec.finalizers, which no other path changes."""
    update_object = await read_object(context, context.kind)

    def finalized(namespace: Json) -> Json:
        finalizers = (update_object.get("spec") or {}).get("finalizers") or []
        namespace["spec"] = {"finalizers": finalizers} if finalizers else {}
        return namespace

    return await update.update_unchecked(context, finalized, context.dry_run("UpdateOptions"))


async def not_implemented(context: RequestContext) -> ApiResponse:
    """Return 501 for a subresource that needs a kubelet or another backend."""
    await context.current()
    raise errors.StatusError(
        501, "NotImplemented", f"{context.info.subresource} is not served by this server"
    )


Handler = Callable[[RequestContext], Awaitable[ApiResponse]]

HANDLERS: dict[tuple[str, str, str], Handler] = {
    ("bindings", "", "create"): bind_by_name,
    ("pods", "binding", "create"): bind,
    ("pods", "eviction", "create"): evict,
    ("serviceaccounts", "token", "create"): create_token,
    ("namespaces", "finalize", "update"): finalize,
    **resource_metrics.HANDLERS,
}
"""By resource, subresource and verb."""
