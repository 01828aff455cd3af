"""Discovery of the resources that an API server serves."""

import msgspec

from quorate.api import codec
from quorate.api.meta import Struct
from quorate.kube.client import Client
from quorate.kube.errors import NotFound, Unreadable


class ServedResource(Struct):
    name: str  # plural; "plural/subresource" for a subresource
    kind: str = ""


class _ResourceList(Struct):
    resources: tuple[ServedResource, ...] = ()


async def plural_of(client: Client, api_version: str, kind: str) -> str:
    """Return the plural name of a kind; empty if it is not served."""
    for served in await served_resources(client, api_version):
        if served.kind == kind and "/" not in served.name:  # subresources have kinds, too
            return served.name
    return ""


async def served_resources(client: Client, api_version: str) -> tuple[ServedResource, ...]:
    """Return all resources of one group version; none if the version is not served.

    Raises ``Unreadable`` and the errors of the client.
    """
    prefix = "/apis" if "/" in api_version else "/api"
    try:
        answer = await client.request("GET", f"{prefix}/{api_version}")
    except NotFound:
        return ()
    try:
        return codec.decode(_ResourceList, answer).resources
    except msgspec.DecodeError as error:
        raise Unreadable(f"GET {prefix}/{api_version}", str(error)) from error
