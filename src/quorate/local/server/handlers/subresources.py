"""The endpoints below an object that do more than show or change its status."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import msgspec

from quorate.local.server.admission import plugins
from quorate.local.server.admission.webhooks import dispatch as webhooks
from quorate.local.server.errors import StatusError, conflict, invalid, required
from quorate.local.server.handlers import delete, disruption_budgets, token_requests, update
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.responses import Answer

Json = dict[str, Any]

BINDING = Kind("", "v1", "Binding", "bindings", True)
EVICTION = Kind("policy", "v1", "Eviction", "evictions", True)


async def bind(call: Call) -> Answer:
    """POST pods/x/binding: put the pod on a node.  Raises StatusError(409) if it is on one, or held back."""
    dry_run = call.dry_run("CreateOptions")
    binding = read_object(call, BINDING, "CreateOptions")
    if not (binding.get("target") or {}).get("name"):
        raise invalid("", "Binding", binding.get("metadata", {}).get("name", ""), [required("target.name")])
    binding.setdefault("metadata", {}).setdefault("namespace", call.namespace)
    plugins.require_namespace(call, binding)
    binding = await webhooks.mutated(call, "CREATE", binding, kind=BINDING)
    await webhooks.admitted(call, "CREATE", binding, kind=BINDING)
    target, uid = binding["target"], binding["metadata"].get("uid")

    def bound(pod: Json) -> Json:
        if uid and uid != pod["metadata"]["uid"]:
            known = pod["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"
            raise conflict("", "pods/binding", call.name, why)
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
            raise conflict("", "pods/binding", call.name, why)
        if pod["spec"].get("nodeName"):
            why = f'pod {call.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            raise conflict("", "pods/binding", call.name, why)
        if pod["spec"].get("schedulingGates"):
            why = f"pod {call.name} has non-empty .spec.schedulingGates"
            raise conflict("", "pods/binding", call.name, why)
        pod["spec"]["nodeName"] = target["name"]
        for name, value in (binding["metadata"].get("annotations") or {}).items():
            pod["metadata"].setdefault("annotations", {})[name] = value
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        conditions = [c for c in status.get("conditions", []) if c.get("type") != "PodScheduled"]
        now = call.context.timestamp()
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        )
        status["conditions"] = conditions
        return pod

    await update.rewrite(call, bound, dry_run)
    return responses.document(call, SUCCESS, 201)


async def bind_by_name(call: Call) -> Answer:
    """POST bindings: the old way to bind, which names the pod in the body alone."""
    binding = read_object(call, BINDING, "CreateOptions")
    name = binding.get("metadata", {}).get("name", "")
    pods = call.context.registry.find("", "v1", "pods")
    assert pods is not None, "a built-in kind"
    asked = replace(call.asked, resource="pods", name=name, subresource="binding")
    return await bind(replace(call, asked=asked, kind=pods))


SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


async def evict(call: Call) -> Answer:
    """POST pods/x/eviction: delete the pod, unless a disruption budget is against it."""
    eviction = read_object(call, EVICTION, "CreateOptions")
    plugins.require_namespace(call, eviction)
    eviction = await webhooks.mutated(call, "CREATE", eviction, kind=EVICTION)
    await webhooks.admitted(call, "CREATE", eviction, kind=EVICTION)
    options = msgspec.convert(eviction.get("deleteOptions") or {}, delete.Options)
    if call.dry_run("CreateOptions"):
        options = msgspec.structs.replace(options, dry_run=("All",))
    disruption_budgets.require_room(call, call.decode(await call.current()))
    await delete.delete_current(call, delete.consistent(options), reviewed=True)
    return responses.document(call, SUCCESS, 201)


async def finalize(call: Call) -> Answer:
    """PUT namespaces/x/finalize: set spec.finalizers, which no other path can change."""
    wanted = read_object(call, call.kind, "UpdateOptions")

    def finalized(namespace: Json) -> Json:
        finalizers = (wanted.get("spec") or {}).get("finalizers") or []
        namespace["spec"] = {"finalizers": finalizers} if finalizers else {}
        return namespace

    return await update.rewrite(call, finalized, call.dry_run("UpdateOptions"))


async def unreachable(call: Call) -> Answer:
    """Endpoints that need more behind the object than this server has, such as a container."""
    await call.current()
    raise StatusError(501, "NotImplemented", f"{call.asked.subresource} is not served by this server")


async def log(call: Call) -> Answer:
    """GET pods/x/log: there is nothing to read of a pod that is on no node."""
    pod = call.decode(await call.current())
    return Answer(204, b"") if not pod["spec"].get("nodeName") else await unreachable(call)


Handler = Callable[[Call], Awaitable[Answer]]

HANDLERS: dict[tuple[str, str, str], Handler] = {
    ("bindings", "", "create"): bind_by_name,
    ("pods", "binding", "create"): bind,
    ("pods", "eviction", "create"): evict,
    ("pods", "log", "get"): log,
    ("serviceaccounts", "token", "create"): token_requests.create,
    ("namespaces", "finalize", "update"): finalize,
}
"""By resource, subresource and verb."""
