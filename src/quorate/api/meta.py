"""Object metadata, conditions, owner references and label selectors.

The structs declare only the fields that Quorate reads, and decoding skips all other fields. Therefore a
struct is never written back whole: a write is either a new object or a patch of fields that Quorate owns.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NewType, Protocol, TypeVar, dataclass_transform

import msgspec

from quorate.api.names.kueue import OWNER_KIND, OWNER_NAME

Uid = NewType("Uid", str)
ConditionStatus = Literal["True", "False", "Unknown"]
# The range that the API stores. Without a schema any integer is stored, which could overflow sums elsewhere.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# RFC 3339 with exactly six fractional digits; the API rejects other forms.
MicroTime = NewType("MicroTime", str)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A typed JSON object with camelCase names; fields with default values are not encoded.

    JSON values contain no cycles, so the garbage collector need not track them.
    """


def always_encoded(kind: type[str | int] = str) -> Any:
    """Return a field that is encoded even if it has its default value ("" or 0).

    Schemas require such text fields, and users expect such counters.
    """
    return msgspec.field(default_factory=kind)


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """The namespaced name of an object; ``namespace`` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerReference(Struct):
    api_version: str
    kind: str
    name: str
    uid: Uid
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def age_order(self) -> tuple[str, str]:
        """Return the sort key that puts the oldest object first; the name decides among equals."""
        created = self.creation_timestamp
        return ("" if created is None else created.isoformat(), self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """Return the owner that controls this object, or None."""
        for owner in self.owner_references:  # faster than next(...), mostly of none
            if owner.controller:
                return owner
        return None

    @property
    def job_owner(self) -> OwnerReference | None:
        """Return the owner of a Workload for which it was made; None for a pod group, or without owners.

        It is the set that its annotations name, which does not control it, or else its controller.
        """
        if name := self.annotations.get(OWNER_NAME):
            kind = self.annotations.get(OWNER_KIND, "").rpartition("Kind=")[2]
            for owner in self.owner_references:
                if (owner.kind, owner.name) == (kind, name):
                    return owner
        return self.controller


def is_older(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Return True if ``one`` is an older version of the object than ``other``.

    Resource versions are increasing integers (KEP-5504). Versions of another form do not compare as older.
    """
    mine, theirs = one.resource_version, other.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) < int(theirs)


class Condition(Struct):
    """A condition; ``last_transition_time`` changes only when ``status`` changes."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = always_encoded()
    last_transition_time: datetime | None = None
    observed_generation: Int64 = 0


class SelectorRequirement(Struct):
    """One expression of a label selector or of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class TypedCondition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=TypedCondition)


def find_condition(conditions: Iterable[C], type_: str) -> C | None:
    for condition in conditions:  # a loop, because this runs several times per workload and write
        if condition.type == type_:
            return condition
    return None


def true_condition(conditions: Iterable[C], type_: str) -> C | None:
    """Return the condition of a type if its status is True; None if it has another status, or is absent."""
    condition = find_condition(conditions, type_)
    return condition if condition is not None and condition.status == "True" else None


def is_true(conditions: Iterable[TypedCondition], type_: str) -> bool:
    for condition in conditions:  # likewise
        if condition.type == type_:
            return condition.status == "True"
    return False


def with_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Return ``conditions`` with ``new`` in place of the condition of its type, or appended.

    The transition time is kept if the status does not change (API convention on conditions).
    """
    result: list[Condition] = []
    placed = False
    for old in conditions:
        if old.type != new.type:
            result.append(old)
            continue
        since = old.last_transition_time if old.status == new.status else new.last_transition_time
        result.append(msgspec.structs.replace(new, last_transition_time=since))
        placed = True
    if not placed:
        result.append(new)
    return tuple(result)


# ``int`` also accepts 1_000, and raises an error above 4300 digits.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


def matches_requirement(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Return True if ``labels`` satisfy one expression; an unknown operator matches nothing.

    ``NotIn`` matches if the key is absent, as the API defines. ``Gt`` and ``Lt`` compare integers and occur
    only in node affinity.
    """
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or len(requirement.values) != 1:
                return False
            if not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(requirement.values[0])):
                return False
            have, bound = int(value), int(requirement.values[0])
            return have > bound if requirement.operator == "Gt" else have < bound
        case _:
            return False


def matches_selector(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return True if ``selector`` matches ``labels``; {} matches all, None nothing."""
    if selector is None:
        return False
    if not (selector.match_labels or selector.match_expressions):
        return True
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        matches_requirement(requirement, labels) for requirement in selector.match_expressions
    )


def scaled_value(value: int | str, total: int, *, round_up: bool) -> int:
    """Return a number of pods, given as such or as a percentage of ``total``."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if round_up else share // 100


_FIRST_S: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_S: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def epoch(moment: datetime) -> float:
    """Return seconds since the epoch, UTC, which is how the cores represent time."""
    return moment.timestamp()


@lru_cache(maxsize=64)  # the conditions of one status, and of one cycle, have the same time
def at_epoch(seconds: float) -> datetime:
    """Return the time ``seconds`` after the epoch in whole seconds, the API's precision.

    A time that the API cannot store becomes the nearest one that it can.
    """
    return datetime.fromtimestamp(int(_storable(seconds)), UTC)


def utc_text(at: float) -> str:
    """Return a time (epoch seconds) for people, such as ``2026-11-30 12:00:00 UTC``."""
    return f"{at_epoch(at):%Y-%m-%d %H:%M:%S} UTC"


def condition_at(
    now: float, type_: str, status: ConditionStatus, reason: str, message: str = ""
) -> Condition:
    """Return a condition that has its status since ``now``, in seconds since the epoch."""
    return Condition(
        type=type_, status=status, reason=reason, message=message, last_transition_time=at_epoch(now)
    )


def micro_time(seconds: float) -> MicroTime:
    """Return the time ``seconds`` after the epoch with microseconds, as Leases and Events need."""
    moment = datetime.fromtimestamp(_storable(seconds), UTC).replace(tzinfo=None)
    return MicroTime(f"{moment.isoformat(timespec='microseconds')}Z")  # strftime does not pad the year


def _storable(seconds: float) -> float:
    return min(max(seconds, _FIRST_S), _LAST_S)
