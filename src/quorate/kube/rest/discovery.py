"""What kinds a server serves, by asking it."""

from quorate.api import codec
from quorate.api.meta import Struct
from quorate.kube.client import Client
from quorate.kube.errors import NotFound


class _Served(Struct):
    name: str
    kind: str = ""


class _ServedList(Struct):
    resources: tuple[_Served, ...] = ()


async def plural_of(client: Client, api_version: str, kind: str) -> str:
    """The name under which the API keeps objects of a kind; empty when it is not served.

    Subresources are of kinds, too: a name with a slash is none of objects.
    """
    for served in await served_resources(client, api_version):
        if served.kind == kind and "/" not in served.name:
            return served.name
    return ""


async def served_resources(client: Client, api_version: str) -> tuple[_Served, ...]:
    """All of one version of a group; none when there is no such version."""
    prefix = "/apis" if "/" in api_version else "/api"
    try:
        answer = await client.request("GET", f"{prefix}/{api_version}")
    except NotFound:
        return ()
    return codec.decode(_ServedList, answer).resources
