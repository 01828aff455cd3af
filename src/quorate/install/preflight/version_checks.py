"""Clients that still write queueing objects in a version that Kueue 0.20 does not serve."""

from collections.abc import Iterable, Iterator
from typing import Final

from quorate.api.kueue import GROUP
from quorate.api.meta import ObjectMeta, Struct
from quorate.install.preflight.findings import PreflightFinding, info
from quorate.install.preflight.installation_objects import Definition
from quorate.kube.resources import Resource

OLD_VERSION: Final = "v1beta1"
_EXAMPLES: Final = 3  # objects named for each client
_REMEDY: Final = "change its manifests and clients to v1beta2 before Kueue 0.20 or newer decides here"


class FieldOwner(Struct):
    manager: str = ""
    api_version: str = ""


class WrittenMetadata(ObjectMeta):
    managed_fields: tuple[FieldOwner, ...] = ()


class WrittenObject(Struct):
    """A queueing object, of which only the owners of its fields are read."""

    metadata: WrittenMetadata


def written_kinds(definitions: Iterable[Definition]) -> list[Resource[WrittenObject]]:
    """Return the queueing kinds that the cluster serves in the old version, too."""
    return [
        Resource(
            GROUP,
            version.name,
            names.plural,
            names.kind,
            definition.spec.scope == "Namespaced",
            WrittenObject,
        )
        for definition in definitions
        if definition.spec.group == GROUP
        and any(one.served and one.name == OLD_VERSION for one in definition.spec.versions)
        for names in (definition.spec.names,)
        for version in definition.spec.versions
        if version.served and version.storage
    ]


def old_client_findings(
    written: Iterable[tuple[Resource[WrittenObject], Iterable[WrittenObject]]],
) -> Iterator[PreflightFinding]:
    """Yield the clients that last wrote fields of an object as v1beta1, by ``metadata.managedFields``."""
    objects: dict[str, list[str]] = {}  # by field manager
    for resource, stored in written:
        for obj in stored:
            where = f"{obj.metadata.namespace}/" if obj.metadata.namespace else ""
            owners = {
                owner.manager
                for owner in obj.metadata.managed_fields
                if owner.api_version == f"{GROUP}/{OLD_VERSION}"
            }
            for manager in sorted(owners):
                objects.setdefault(manager, []).append(f"{resource.plural}/{where}{obj.metadata.name}")
    for manager, names in sorted(objects.items()):
        more = f" and {len(names) - _EXAMPLES} more" if len(names) > _EXAMPLES else ""
        says = f"it wrote {', '.join(names[:_EXAMPLES])}{more} as {OLD_VERSION}"
        yield info(f"client {manager or 'without a name'}", says, _REMEDY)
