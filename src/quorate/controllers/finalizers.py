"""The finalizer that keeps an object while something of ours depends on it."""

from typing import Any

from quorate.api.kueue import RESOURCE_IN_USE
from quorate.api.meta import ObjectMeta
from quorate.kube.resources import Resource
from quorate.kube.writes import Patch


def held(resource: Resource[Any], metadata: ObjectMeta) -> tuple[Patch, ...]:
    """The patch that puts our finalizer on an object; none if it is there, or too late."""
    if RESOURCE_IN_USE in metadata.finalizers or metadata.deletion_timestamp is not None:
        return ()
    return (_with_finalizers(resource, metadata, (*metadata.finalizers, RESOURCE_IN_USE)),)


def released(resource: Resource[Any], metadata: ObjectMeta) -> tuple[Patch, ...]:
    """The patch that lets a deletion be completed, as far as we are concerned; none if we do not hold it."""
    if RESOURCE_IN_USE not in metadata.finalizers:
        return ()
    left = tuple(each for each in metadata.finalizers if each != RESOURCE_IN_USE)
    return (_with_finalizers(resource, metadata, left),)


def _with_finalizers(resource: Resource[Any], metadata: ObjectMeta, finalizers: tuple[str, ...]) -> Patch:
    body = {"metadata": {"finalizers": finalizers or None}}
    return Patch(resource, metadata.key, metadata.resource_version, body)
