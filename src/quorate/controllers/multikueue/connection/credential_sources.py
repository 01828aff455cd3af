"""The Secrets, files and ClusterProfiles that MultiKueueClusters name, followed for changes."""

import asyncio
import base64
import binascii
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

from quorate.api.configuration import Configuration
from quorate.api.kueue.multikueue import KUBECONFIG_KEY, PROFILE_GROUP, ClusterProfile, ClusterSource, Secret
from quorate.api.meta import Key
from quorate.controllers.multikueue.connection.credentials import (
    Unusable,
    kubeconfig_context,
    profile_context,
    read_kubeconfig_file,
)
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, NotFound, ServerError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.kube.manager.restart import run_restarting
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import CLUSTER_PROFILES, KUBECONFIG_SECRETS, Resource, T
from quorate.kube.rest.decoding import WatchEvent
from quorate.kube.rest.kubeconfig import KubeconfigContext

FILE_INTERVAL_S: Final = 1.0  # between two reads of a kubeconfig file
RETRY_S: Final = 1.0  # after a refused or failed request, or the end of a watch

Loaded = KubeconfigContext | Unusable


@dataclass(frozen=True, slots=True)
class Source:
    """Where credentials are: the name of a Secret or ClusterProfile, or the path of a file."""

    kind: Literal["Secret", "Path", "ClusterProfile"]
    location: str


def source_of(spec: ClusterSource) -> Source | None:
    """Return the source that ``spec`` names; None: it names none."""
    if spec.cluster_profile_ref is not None:
        return Source("ClusterProfile", spec.cluster_profile_ref.name)
    if spec.kube_config is not None:
        return Source(spec.kube_config.location_type, spec.kube_config.location)
    return None


@dataclass(slots=True)
class _Followed:
    task: asyncio.Task[None]
    clusters: set[str] = field(default_factory=set)
    loaded: Loaded | None = None  # None: not read yet


class CredentialSources:
    """Follows each source in a task of its own, from its first use by a cluster to its last.

    ``on_change`` is called with each cluster of which the credentials have changed.
    """

    def __init__(
        self, client: Client, clock: Clock, configuration: Configuration, on_change: Callable[[str], None]
    ) -> None:
        self._client, self._clock, self._configuration = client, clock, configuration
        self._on_change = on_change
        self._followed: dict[Source, _Followed] = {}
        self._source_of: dict[str, Source] = {}  # by cluster

    def load(self, cluster: str, spec: ClusterSource) -> Loaded | None:
        """Return the credentials of a cluster and follow them; None if they are not read yet."""
        source = source_of(spec)
        if source != self._source_of.get(cluster):
            self.forget(cluster)
        if source is None:
            return Unusable("BadKubeConfig", "kubeconfig reference is nil")
        if source.kind == "ClusterProfile" and not self._configuration.multikueue_gates.cluster_profile:
            problem = "MultiKueueClusterProfile feature gate is disabled"
            return Unusable("MultiKueueClusterProfileFeatureDisabled", problem)
        followed = self._followed.get(source)
        if followed is None:
            task = asyncio.create_task(self._follow(source), name=f"{source.kind} {source.location}")
            followed = self._followed[source] = _Followed(task)
        followed.clusters.add(cluster)
        self._source_of[cluster] = source
        return followed.loaded

    def forget(self, cluster: str) -> None:
        """End the use of a source by a cluster."""
        source = self._source_of.pop(cluster, None)
        if source is None:
            return
        followed = self._followed[source]
        followed.clusters.discard(cluster)
        if not followed.clusters:
            followed.task.cancel()
            del self._followed[source]

    async def stop(self) -> None:
        await end_tasks([followed.task for followed in self._followed.values()])

    async def _follow(self, source: Source) -> None:
        await run_restarting(
            f"{source.kind} {source.location}", lambda: self._follow_once(source), self._clock
        )

    async def _follow_once(self, source: Source) -> None:
        async for loaded in self._readings(source):
            followed = self._followed[source]
            if loaded != followed.loaded:
                followed.loaded = loaded
                for cluster in sorted(followed.clusters):
                    self._on_change(cluster)

    def _readings(self, source: Source) -> AsyncGenerator[Loaded, None]:
        match source.kind:
            case "Secret":
                return self._secrets(source.location)
            case "Path":
                return self._files(source.location)
            case "ClusterProfile":
                return self._profiles(source.location)
            case _:
                assert_never(source.kind)

    async def _secrets(self, name: str) -> AsyncGenerator[Loaded, None]:
        key = Key(self._configuration.namespace, name)
        async for secret in follow(self._client, KUBECONFIG_SECRETS, key, self._clock):
            match secret:
                case Secret():
                    yield await self._parsed(_kubeconfig_of(secret))
                case None:
                    yield Unusable("BadKubeConfig", f'Secret "{name}" not found')
                case ApiError() | Unreadable():
                    yield Unusable("BadKubeConfig", _text_of(secret))

    async def _files(self, location: str) -> AsyncGenerator[Loaded, None]:
        validate = self._configuration.multikueue_gates.validate_kubeconfig_path
        steady, last = self._clock.steady, None
        while True:
            # In a thread, because a file system may not answer.
            content = await asyncio.to_thread(read_kubeconfig_file, location, validate=validate)
            if content != last:
                last = content
                yield await self._parsed(content)
            await steady.sleep_until(steady.now() + FILE_INTERVAL_S)

    async def _profiles(self, name: str) -> AsyncGenerator[Loaded, None]:
        key = Key(self._configuration.namespace, name)
        async for profile in follow(self._client, CLUSTER_PROFILES, key, self._clock):
            match profile:
                case ClusterProfile():
                    yield profile_context(profile, self._configuration.multikueue.access_plugins)
                case None:
                    problem = f'ClusterProfile.{PROFILE_GROUP} "{name}" not found'
                    yield Unusable("BadClusterProfile", problem)
                case ApiError() | Unreadable():
                    yield Unusable("BadClusterProfile", _text_of(profile))

    async def _parsed(self, content: bytes | Unusable) -> Loaded:
        if isinstance(content, Unusable):
            return content
        allow_insecure = self._configuration.multikueue_gates.allow_insecure_kubeconfigs
        # In a thread, because a large document takes seconds.
        return await asyncio.to_thread(kubeconfig_context, content, allow_insecure=allow_insecure)


def _kubeconfig_of(secret: Secret) -> bytes | Unusable:
    """Return the kubeconfig in a Secret, or why it has none."""
    name = secret.metadata.name
    encoded = secret.data.get(KUBECONFIG_KEY)
    if encoded is None:
        return Unusable("BadKubeConfig", f'key "{KUBECONFIG_KEY}" not found in secret "{name}"')
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return Unusable("BadKubeConfig", f'key "{KUBECONFIG_KEY}" in secret "{name}" is not base64')


def _text_of(error: ApiError | Unreadable) -> str:
    return error.message or str(error) if isinstance(error, ApiError) else str(error)


async def follow(
    client: Client, resource: Resource[T], key: Key, clock: Clock
) -> AsyncGenerator[T | ApiError | Unreadable | None, None]:
    """Yield the object now and after each change, with requests for this name only (get and watch).

    None: it does not exist, or its kind is not served.  An error: it cannot be read.  A server that does not
    answer, or fails, is asked again: nothing is known about the object then.
    """
    log = logger(__name__).bind(resource=resource.plural, key=key)
    selector = f"metadata.name={key.name}"
    while True:
        try:
            yield await client.find(resource, key)
            async for event in client.watch(resource, "", key.namespace, field_selector=selector):
                match event:
                    case WatchEvent(type_, obj):
                        yield None if type_ == "DELETED" else obj
                    case ObjectFault(problem=problem, deleted=deleted):
                        yield (
                            None if deleted else Unreadable(f"WATCH {resource.path(key.namespace)}", problem)
                        )
        except (ServerError, Unreachable) as error:
            log.warning("object not read", problem=str(error))
        except NotFound:
            yield None  # the kind is not served
        except (ApiError, Unreadable) as error:
            yield error
        await clock.steady.sleep_until(clock.steady.now() + RETRY_S)
