"""Objects that cannot be used, one concept for all causes.

Any client may store an object that we cannot decode, that an index or a subscriber of an informer cannot use,
or on which a controller raises.  Such a fault concerns one version of one object.  It is logged once, with
its traceback, counted each time, and shown on the object; everything else goes on, and the next version of
the object is tried like any other.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

from quorate.api.codec import shortened
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.meta import Key, ObjectMeta, Uid
from quorate.kube.limits import MAX_REMEMBERED_FAULTS
from quorate.kube.log import logger
from quorate.kube.resources import HasMetadata, Json, Resource, metadata_of

# Where an object could not be used: in the order of its way through a process.
Stage = Literal["decode", "index", "subscribe", "decide", "reconcile"]


_Subject = tuple[str, str, Key, Stage]  # API version, plural and key of an object, and the stage
_Version = tuple[Uid, str, str]  # uid, resource version and problem


class ObjectFault(msgspec.Struct, frozen=True):
    """One version of one object that cannot be used.

    ``obj`` is the decoded object, ``raw`` its JSON if it cannot be decoded.  ``requests`` is known of a pod
    on a node if only other fields, or more quantities than are read, prevent its decoding.
    """

    resource: Resource[Any]
    key: Key
    uid: Uid
    resource_version: str
    stage: Stage
    problem: str
    error: Exception | None = None  # None: the object, or a part of it, does not have its type
    obj: Any = None
    raw: bytes = b""
    deleted: bool = False  # from the DELETED event of a watch
    requests: EncodedRequests | None = None


OnFault = Callable[[ObjectFault], None]


def problem_of(error: Exception) -> str:
    """Return the text about an exception that nothing expected, for the object that caused it."""
    return shortened(f"internal error, see the log of this component: {type(error).__name__}: {error}")


def fault_of(
    resource: Resource[Any], stage: Stage, key: Key, obj: HasMetadata | Json | None, error: Exception
) -> ObjectFault:
    """Return the fault of a decoded object on which ``error`` was raised; None: it no longer exists.

    A part of an object may be decoded late, such as a pod template, and be what cannot be decoded.
    """
    metadata = ObjectMeta() if obj is None else metadata_of(obj)
    uid, version = metadata.uid, metadata.resource_version
    if isinstance(error, msgspec.ValidationError):
        return ObjectFault(resource, key, uid, version, stage, shortened(str(error)), None, obj)
    return ObjectFault(resource, key, uid, version, stage, problem_of(error), error, obj)


class ObjectFaults:
    """The faults that the informers and controllers of one client found."""

    def __init__(self) -> None:
        self._logged: dict[_Subject, _Version] = {}  # the last of each, oldest first
        self._subscribers: list[OnFault] = []
        self._log = logger(__name__)

    def report(self, fault: ObjectFault) -> None:
        """Log ``fault`` unless this version was logged, and pass it to the subscribers; never raise."""
        resource = fault.resource
        subject = (resource.api_version, resource.plural, fault.key, fault.stage)
        version = (fault.uid, fault.resource_version, fault.problem)
        if self._logged.pop(subject, None) != version:
            self._write(fault)
        self._logged[subject] = version
        if len(self._logged) > MAX_REMEMBERED_FAULTS:
            del self._logged[next(iter(self._logged))]
        for on_fault in tuple(self._subscribers):
            try:
                on_fault(fault)
            except Exception as error:
                self._log.fault("report of an object raised", error, key=fault.key)

    @contextmanager
    def subscribed(self, *on_fault: OnFault) -> Iterator[None]:
        """Call each of ``on_fault`` with each fault within the block."""
        self._subscribers += on_fault
        try:
            yield
        finally:
            for subscriber in on_fault:
                self._subscribers.remove(subscriber)

    def _write(self, fault: ObjectFault) -> None:
        log = self._log.bind(
            resource=fault.resource.plural, key=fault.key, version=fault.resource_version, stage=fault.stage
        )
        if fault.error is None:
            log.error("object ignored: it cannot be decoded", problem=fault.problem)
        else:
            log.fault("object cannot be used", fault.error)
