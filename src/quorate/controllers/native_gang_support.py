"""What the API server must have so that jobs can start as native gangs."""

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final

from quorate.api.configuration import Configuration
from quorate.api.native_groups import POLICY
from quorate.controllers.limits import NATIVE_GANGS_CHECK_S
from quorate.kube.clock import Clock
from quorate.kube.discovery import served_resources
from quorate.kube.errors import ApiError, Forbidden, NotFound, Unreachable, Unreadable
from quorate.kube.resources import NATIVE_POD_GROUPS, untyped

if TYPE_CHECKING:
    from quorate.kube.client import Client

_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")
_POLICIES: Final = untyped(*_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False)
_BINDINGS: Final = untyped(
    *_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)


class Availability(Enum):
    """Whether a job can start as a native gang; the value says what is missing."""

    AVAILABLE = ""
    NO_GROUPS = (
        "the API server has no podgroups of scheduling.k8s.io/v1alpha2 (enable its feature gates "
        "GenericWorkload and GangScheduling)"
    )
    NO_POLICY = (
        "the MutatingAdmissionPolicy quorate-native-gangs or its binding does not exist or may not be read "
        "(apply the optional manifest native-gangs.yaml)"
    )


class NativeGangsUnavailable(Exception):
    """The Configuration asks for native gangs of an API server without pod groups."""

    def __str__(self) -> str:
        return f"gangs: native needs pod groups of Kubernetes: {Availability.NO_GROUPS.value}"


async def require_native_groups(client: "Client", configuration: Configuration) -> None:
    """Raise ``NativeGangsUnavailable`` if all jobs are to start as native gangs and no server serves them."""
    if not configuration.native_gangs:
        return
    try:
        served = await _serves_groups(client)
    except (ApiError, Unreachable, Unreadable):
        return  # the reconcilers report it
    if not served:
        raise NativeGangsUnavailable


class NativeGangSupport:
    """Answers whether jobs can start as native gangs; asks the API server at most once in a while."""

    def __init__(self, client: "Client", clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._lock = asyncio.Lock()
        self._answer = Availability.NO_GROUPS
        self._until = float("-inf")

    async def availability(self) -> Availability:
        """Return what is missing.  Raises the errors of the client."""
        async with self._lock:
            if self._clock.now() >= self._until:
                self._answer = await self._ask()
                self._until = self._clock.now() + NATIVE_GANGS_CHECK_S
            return self._answer

    async def _ask(self) -> Availability:
        if not await _serves_groups(self._client):
            return Availability.NO_GROUPS
        for resource in (_POLICIES, _BINDINGS):
            try:
                await self._client.request("GET", resource.path(name=POLICY))
            except (NotFound, Forbidden):  # the manifest with the policy has the right to read it, too
                return Availability.NO_POLICY
        return Availability.AVAILABLE


async def _serves_groups(client: "Client") -> bool:
    served = await served_resources(client, NATIVE_POD_GROUPS.api_version)
    return NATIVE_POD_GROUPS.plural in {listed.name for listed in served}
