"""The registry of served kinds, and the strategy interface of a kind.

``builtin`` lists the built-in kinds; CustomResourceDefinitions add kinds while the server runs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.api.codec import Json
from quorate.local.objects.crd.definition import ScalePaths
from quorate.local.objects.errors import Cause
from quorate.local.objects.schema_types import MapOf
from quorate.local.objects.tables.layout import TableLayout
from quorate.local.server.storage.store import Entry, with_contents

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def no_findings(*_: Json) -> list[Cause]:
    return []


def no_change(*_: Json) -> None:
    """Change nothing, as the default of the functions of a strategy."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded object, without unknown and empty fields."""

    object: Json
    warnings: tuple[str, ...] = ()  # `unknown field "spec.x"`, `duplicate field "data.a"`


@dataclass(frozen=True, slots=True)
class Strategy:
    """The functions that a kind adds to the handling of its objects.

    They modify their first argument.  The handlers call them in the order of the attributes.
    """

    decode: Callable[[Json], Decoded] = Decoded
    """Decode an object.  Raises StatusError(400) for a value of the wrong type."""
    default: Callable[[Json], None] = no_change
    """Set defaults, on create and on update; idempotent."""
    prepare_for_create: Callable[[Json], None] = no_change
    """Set the server-owned fields of a new object with a uid, such as an empty status."""
    default_on_read: Callable[[Json], None] = no_change
    """Set defaults that apply when a new object is read from the store, so webhooks do not see them."""
    prepare_for_update: Callable[[Json, Json], None] = no_change
    """Restore, in an update (new, old) of the object, what this path must not change, such as status."""
    prepare_for_status_update: Callable[[Json, Json], None] = no_change
    """Restore, in an update (new, old) of the status, what this path must not change."""
    validate: Callable[[Json], list[Cause]] = no_findings
    validate_create: Callable[[Json], list[Cause]] = no_findings
    """Validate a new object, in addition to ``validate``."""
    validate_update: Callable[[Json, Json], list[Cause]] = no_findings
    validate_status: Callable[[Json, Json], list[Cause]] = no_findings
    warnings: Callable[[Json], list[str]] = lambda _: []
    """Return warnings about an accepted object."""
    evaluates: bool = False
    """True if validation evaluates CEL expressions, for which a thread waits."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource in discovery."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""  # empty: the kind itself


STATUS = Subresource("status", ("get", "patch", "update"))
SCALE = Subresource("scale", ("get", "patch", "update"), "autoscaling", "v1", "Scale")


StorageConversion = Callable[[Sequence[Json], bool], Awaitable[list[Json]]]
"""Converts objects of a version to the stored version (True) or from it (False), in one batch."""


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
    """The fields, and how lists and maps merge."""
    selectable_fields: Mapping[str, str] = field(default_factory=dict)
    """Selectable fields besides metadata.name and metadata.namespace, with the value of an absent field.

    The label of the selector is the path of the field, or a key of ``field_paths``.
    """
    field_paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths by the label of the selector: the first that is not empty counts."""
    tracks_generation: bool = False
    """Each change outside metadata and status increments metadata.generation."""
    fixed_generation: bool = False
    """metadata.generation stays 1."""
    allow_create_on_update: bool = False
    """PUT creates a missing object."""
    require_resource_version: bool = False
    """PUT without a resourceVersion is rejected, instead of an unconditional update."""
    return_deleted_object: bool = False
    """DELETE returns the deleted object instead of a Status."""
    custom: bool = False
    """Defined by a CustomResourceDefinition; list items carry apiVersion and kind."""
    list_kind: str = ""
    table_layout: TableLayout | None = None
    """The columns of its table; None: those of the built-in kind of this name."""
    warning: str = ""
    """Sent with every response, for example that the version is deprecated."""
    scale: ScalePaths | None = None
    """The paths of the scale subresource; None: the kind has none."""
    storage_resource: str = ""
    """The resource under which the objects are stored, if it is not its own."""
    convert: StorageConversion | None = None
    """None: this version is the stored one."""
    defaulted_since: int = 0
    """Objects of older revisions may lack defaults, which they get when they are read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")

    @property
    def resource(self) -> str:
        """The resource under which all versions are stored: ``pods``, ``jobs.batch``."""
        return self.storage_resource or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def error_group(self) -> str:
        """The group that validation errors name: the group of the stored kind."""
        return "" if self.storage_resource == "events" else self.group

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        return any(sub.name == "status" for sub in self.subresources)

    async def to_storage(self, obj: Json) -> Json:
        """Convert an object, which the caller gives up, to the stored version.

        Raises StatusError(500).
        """
        if self.convert is None:
            return obj
        (converted,) = await self.convert([obj], True)
        return converted

    async def from_storage(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Convert stored objects to this version.  Raises StatusError(500)."""
        if self.convert is None and self.defaulted_since:
            return [self._defaulted(entry) for entry in entries]
        if self.convert is None or not entries:
            return entries
        converted = await self.convert([entry.decode() for entry in entries], False)
        return [with_contents(entry, obj) for entry, obj in zip(entries, converted, strict=True)]

    def _defaulted(self, entry: Entry) -> Entry:
        if entry.revision >= self.defaulted_since:
            return entry
        obj = entry.decode()
        self.strategy.default(obj)
        return with_contents(entry, obj)

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class Registry:
    """The served kinds by group, version and plural."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self.terminating: set[str] = set()
        """Custom resources with a definition that is being deleted; creates are refused."""

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def register(self, *kinds: Kind) -> None:
        for kind in kinds:
            self._kinds[kind.group, kind.version, kind.plural] = kind

    def unregister(self, group: str, plural: str) -> None:
        """Stop serving all versions of a resource."""
        self._kinds = {
            at: kind for at, kind in self._kinds.items() if (kind.group, kind.plural) != (group, plural)
        }

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def is_custom_group(self, group: str) -> bool:
        """Return True if all kinds of a group are custom resources."""
        return all(kind.custom for kind in self._kinds.values() if kind.group == group)

    def has_group(self, group: str) -> bool:
        return any(kind.group == group for kind in self._kinds.values())
