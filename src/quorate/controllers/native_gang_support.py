"""What the API server must have so that jobs can start as native gangs."""

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final

from quorate.api.configuration import Configuration
from quorate.api.native_groups import POLICY, VERSIONS, PodGroup
from quorate.controllers.limits import NATIVE_GANGS_CHECK_S
from quorate.kube.clock import Clock
from quorate.kube.discovery import served_version
from quorate.kube.errors import ApiError, Forbidden, NotFound, Unreachable, Unreadable
from quorate.kube.resources import NATIVE_POD_GROUPS, Resource, untyped

if TYPE_CHECKING:
    from quorate.kube.client import Client

_ADMISSION: Final = ("admissionregistration.k8s.io", "v1")
_POLICIES: Final = untyped(*_ADMISSION, "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False)
_BINDINGS: Final = untyped(
    *_ADMISSION, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)


class Missing(Enum):
    """What a job needs to start as a native gang; the value is a sentence that says how to get it."""

    GROUPS = (
        "the API server has no podgroups of scheduling.k8s.io/v1alpha2 or v1beta1 (enable the version in its "
        "--runtime-config, the feature gate GenericWorkload, and in Kubernetes 1.36 also GangScheduling)"
    )
    POLICY = (
        "the MutatingAdmissionPolicy quorate-native-gangs or its binding does not exist or may not be read "
        "(apply the optional manifest native-gangs.yaml)"
    )


NativeGangs = Resource[PodGroup] | Missing
"""The pod groups with which jobs start, in the version of the API server; or what is missing."""


class NativeGangsUnavailable(Exception):
    """The Configuration asks for native gangs of an API server without pod groups."""

    def __str__(self) -> str:
        return f"gangs: native needs pod groups of Kubernetes: {Missing.GROUPS.value}"


async def require_native_groups(client: "Client", configuration: Configuration) -> None:
    """Raise ``NativeGangsUnavailable`` if all jobs are to start as native gangs and no server serves them."""
    if not configuration.native_gangs:
        return
    try:
        served = await _served_groups(client)
    except (ApiError, Unreachable, Unreadable):
        return  # the reconcilers report it
    if served is None:
        raise NativeGangsUnavailable


class NativeGangSupport:
    """Answers whether jobs can start as native gangs; asks the API server at most once in a while."""

    def __init__(self, client: "Client", clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._lock = asyncio.Lock()
        self._answer: NativeGangs = Missing.GROUPS
        self._until = float("-inf")

    async def availability(self) -> NativeGangs:
        """Return the pod groups in the version of the API server, or what is missing.

        Raises the errors of the client.
        """
        async with self._lock:
            if self._clock.now() >= self._until:
                self._answer = await self._ask()
                self._until = self._clock.now() + NATIVE_GANGS_CHECK_S
            return self._answer

    async def _ask(self) -> NativeGangs:
        groups = await _served_groups(self._client)
        if groups is None:
            return Missing.GROUPS
        for resource in (_POLICIES, _BINDINGS):
            try:
                await self._client.request("GET", resource.path(name=POLICY))
            except (NotFound, Forbidden):  # the manifest with the policy has the right to read it, too
                return Missing.POLICY
        return groups


async def _served_groups(client: "Client") -> Resource[PodGroup] | None:
    return await served_version(client, NATIVE_POD_GROUPS, VERSIONS)
