"""Which resources there are: what discovery lists, what a path may name, and the rules each kind adds.

The built-in kinds are in ``builtin``; a CustomResourceDefinition puts its own in while the server runs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.local.objects.crd.definition import ScalePaths
from quorate.local.objects.schema_types import MapOf
from quorate.local.objects.tables.layout import TableLayout
from quorate.local.server.errors import Cause
from quorate.local.server.storage.store import Entry, with_contents

Json = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def no_findings(*_: Json) -> list[Cause]:
    return []


def no_change(*_: Json) -> None:
    """A kind without a rule of its own here."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A request body as an object of its kind: unknown fields dropped, empty ones left out."""

    object: Json
    warnings: tuple[str, ...] = ()  # `unknown field "spec.x"`, `duplicate field "data.a"`


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a kind does with its objects beyond what every object gets.

    The functions change the object they are given (the first argument); the server calls them in this order.
    """

    decode: Callable[[Json], Decoded] = Decoded
    """Shape: raises StatusError(400) for a value of the wrong type."""
    default: Callable[[Json], None] = no_change
    """Fill in what was left out; on create and on update, so it must be idempotent."""
    prepare_for_create: Callable[[Json], None] = no_change
    """A new object, uid already given: what only the server may say at birth (an empty status, labels)."""
    default_on_read: Callable[[Json], None] = no_change
    """What a new object gets when it is read from the store, which webhooks therefore do not see."""
    prepare_for_update: Callable[[Json, Json], None] = no_change
    """An update (new, old) of the object itself: put back what this path may not change, such as status."""
    prepare_for_status_update: Callable[[Json, Json], None] = no_change
    """An update (new, old) through /status: put back what else it may not change."""
    validate: Callable[[Json], list[Cause]] = no_findings
    validate_create: Callable[[Json], list[Cause]] = no_findings
    """What only a new object is checked for, besides ``validate``."""
    validate_update: Callable[[Json, Json], list[Cause]] = no_findings
    validate_status: Callable[[Json, Json], list[Cause]] = no_findings
    warnings: Callable[[Json], list[str]] = lambda _: []
    """Warning headers for an object that is accepted all the same."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """One of a kind's further endpoints as discovery shows it."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""  # empty: the kind itself


STATUS = Subresource("status", ("get", "patch", "update"))
SCALE = Subresource("scale", ("get", "patch", "update"), "autoscaling", "v1", "Scale")


StorageConversion = Callable[[Sequence[Json], bool], Awaitable[list[Json]]]
"""Turns objects of a version into the stored one (True) or back (False); all at once, it may have to ask."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource in one served version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    type: MapOf = field(default_factory=MapOf)
    """Its fields, and how their lists and maps merge."""
    selectable_fields: Mapping[str, str] = field(default_factory=dict)
    """Field selectors besides metadata.name and metadata.namespace: label -> value when the field is absent.

    The label is also the path of the field."""
    tracks_generation: bool = False
    """metadata.generation grows with every change outside metadata and status."""
    allow_create_on_update: bool = False
    """PUT makes an object that does not exist."""
    require_resource_version: bool = False
    """PUT without a resourceVersion is refused, instead of overwriting whatever is there."""
    return_deleted_object: bool = False
    """DELETE answers with the last state, instead of a Status."""
    custom: bool = False
    """Defined by a CustomResourceDefinition: list items carry apiVersion and kind."""
    list_kind: str = ""
    table_layout: TableLayout | None = None
    """Its table; None: the built-in one for its name."""
    warning: str = ""
    """Sent with every answer, such as that the version is deprecated."""
    scale: ScalePaths | None = None
    """Where the scale subresource finds its numbers; None: there is none."""
    storage_resource: str = ""
    """The resource whose objects these are too, in another form; empty: its own."""
    convert: StorageConversion | None = None
    """None: this version is the stored one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")

    @property
    def resource(self) -> str:
        """The name under which every version of it is stored: ``pods``, ``jobs.batch``."""
        return self.storage_resource or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        return any(sub.name == "status" for sub in self.subresources)

    async def to_storage(self, obj: Json) -> Json:
        """An object of this version, given away, in the version that is stored.  Raises StatusError(500)."""
        if self.convert is None:
            return obj
        (converted,) = await self.convert([obj], True)
        return converted

    async def from_storage(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Stored objects as entries in this version.  Raises StatusError(500)."""
        if self.convert is None or not entries:
            return entries
        converted = await self.convert([entry.decode() for entry in entries], False)
        return [with_contents(entry, obj) for entry, obj in zip(entries, converted, strict=True)]

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class Registry:
    """The kinds served now, by group, version and plural."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def register(self, *kinds: Kind) -> None:
        for kind in kinds:
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def unregister(self, group: str, plural: str) -> None:
        """Stop serving a resource in all its versions."""
        self._kinds = {
            at: kind for at, kind in self._kinds.items() if (kind.group, kind.plural) != (group, plural)
        }

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def is_custom_group(self, group: str) -> bool:
        """Whether everything in a group is defined by CustomResourceDefinitions."""
        return all(kind.custom for kind in self._kinds.values() if kind.group == group)

    def has_group(self, group: str) -> bool:
        return any(kind.group == group for kind in self._kinds.values())
