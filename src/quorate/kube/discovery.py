"""Discovery of the resources that an API server serves."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from quorate.api.meta import Struct
from quorate.kube.clock import Clock
from quorate.kube.errors import NotFound, RequestFailed
from quorate.kube.limits import DISCOVERY_INTERVAL_S
from quorate.kube.log import logger
from quorate.kube.resources import Resource, T

if TYPE_CHECKING:
    from quorate.kube.client import Client

_SERVED: Final = "served"
# The last message about each kind, by its version and name.
_LOGGED: "Final[WeakKeyDictionary[Client, dict[tuple[str, str], str]]]" = WeakKeyDictionary()


class ServedResource(Struct):
    name: str  # plural; "plural/subresource" for a subresource
    kind: str = ""
    namespaced: bool = False


class _ResourceList(Struct):
    resources: tuple[ServedResource, ...] = ()


async def plural_of(client: "Client", api_version: str, kind: str) -> str:
    """Return the plural name of a kind; empty if it is not served."""
    for served in await served_resources(client, api_version):
        if served.kind == kind and "/" not in served.name:  # subresources have kinds, too
            return served.name
    return ""


async def served_resources(client: "Client", api_version: str) -> tuple[ServedResource, ...]:
    """Return the resources of ``api_version``, such as batch/v1; none if the server has no such version.

    Raises ``Unreadable`` and the errors of the client.
    """
    prefix = "/apis" if "/" in api_version else "/api"
    try:
        return (await client.request_as(_ResourceList, "GET", f"{prefix}/{api_version}")).resources
    except NotFound:
        return ()


async def served_version(
    client: "Client", resource: Resource[T], versions: Sequence[str]
) -> Resource[T] | None:
    """Return ``resource`` in the first of ``versions`` that the server has; None if it has none of them.

    Raises ``Unreadable`` and the errors of the client.
    """
    for version in versions:
        candidate = replace(resource, version=version)
        served = await served_resources(client, candidate.api_version)
        if resource.plural in {listed.name for listed in served}:
            return candidate
    return None


async def wait_until_served(
    resource: Resource[Any],
    client: "Client",
    clock: Clock,
    *,
    on_absent: Callable[[], None] | None = None,
    interval_s: float = DISCOVERY_INTERVAL_S,
    versions: Sequence[str] = (),
) -> Resource[Any]:
    """Return a kind once the server serves it; its definition may be installed at any time.

    ``versions``: the accepted versions, instead of the version of ``resource``.

    Log why it is not served, once for all that wait for the kind with this client.  With ``on_absent``, its
    absence is normal: call that instead at each answer.
    """
    log = logger(__name__).bind(kind=resource.kind, api_version=resource.api_version)
    kind, logged = (resource.api_version, resource.kind), _LOGGED.setdefault(client, {})
    while True:
        problem = ""
        try:
            version = await served_version(client, resource, versions or (resource.version,))
            if version is not None:
                if logged.get(kind) != _SERVED:
                    log.info("kind is served")
                    logged[kind] = _SERVED
                return version
            if on_absent is None:
                served = await served_resources(client, resource.api_version)
                problem = "its definition is not installed" + (" in this version" if served else "")
            else:
                on_absent()
        except RequestFailed as error:
            problem = str(error)
        if problem and problem != logged.get(kind):
            log.warning("kind is not served yet", problem=problem)
            logged[kind] = problem
        await clock.steady.sleep_until(clock.steady.now() + interval_s)
