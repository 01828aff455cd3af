"""The parts every Kubernetes object has: metadata, conditions, owner references, label selectors.

The structs keep only the fields we read; decoding skips the rest.  They are therefore never written back
whole: a write is either a new object composed in full or a patch of the fields we own.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NewType, dataclass_transform

import msgspec

Uid = NewType("Uid", str)
ConditionStatus = Literal["True", "False", "Unknown"]
# As the API stores it.  Without a schema it stores anything, and what is larger would fit no sum of ours.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
MicroTime = NewType("MicroTime", str)  # RFC 3339 with exactly six digits after the point; others are refused


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A typed JSON object: camelCase on the wire, absent fields take the default, defaults are left out.

    JSON has no cycles, so the collector need not walk it, however many objects there are.
    """


def always_encoded(kind: type[str | int] = str) -> Any:
    """A text or a number that is empty or 0 by default but, unlike other defaults, written out.

    Schemas require the text, and people look for the number.
    """
    return msgspec.field(default_factory=kind)


class Key(msgspec.Struct, frozen=True, order=True, gc=False):
    """The identity of an object among those of its kind; ``namespace`` is empty for cluster-scoped kinds."""

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
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if it has any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


def is_older(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Whether ``one`` was stored before ``other``, a version of the same object.

    Versions are numbers that grow (KEP-5504); those that are none are taken as they come.
    """
    mine, theirs = one.resource_version, other.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) < int(theirs)


class Condition(Struct):
    """One entry of ``status.conditions``; ``last_transition_time`` moves only when ``status`` does."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = always_encoded()
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class SelectorRequirement(Struct):
    """One expression of a label selector or of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    for condition in conditions:  # a loop: it is asked for several times for each workload and write
        if condition.type == type_:
            return condition
    return None


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    condition = find_condition(conditions, type_)
    return condition is not None and condition.status == "True"


def with_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """``conditions`` with ``new`` in the place of the one of its type, or appended.

    The old transition time is kept when the status stays what it was (API convention on conditions).
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


# ``int`` takes 1_000 as well, and stops at 4300 digits with an error.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


def matches_requirement(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Whether ``labels`` satisfy one expression; unknown operators match nothing.

    ``NotIn`` is satisfied by an absent key, as the API defines.  ``Gt`` and ``Lt`` compare integers and
    occur only in node affinity.
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
    """Whether ``selector`` picks an object with ``labels``: an empty one picks all, an absent one none."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        matches_requirement(requirement, labels) for requirement in selector.match_expressions
    )


def epoch(moment: datetime) -> float:
    """Seconds since the epoch, UTC: the form in which the cores are told the time."""
    return moment.timestamp()


def at_epoch(seconds: float) -> datetime:
    """The moment ``seconds`` after the epoch, cut to whole seconds, the precision the API stores."""
    return datetime.fromtimestamp(int(seconds), UTC)


def micro_time(seconds: float) -> MicroTime:
    """The moment ``seconds`` after the epoch, to the microsecond, as Leases and Events carry it."""
    return MicroTime(datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
