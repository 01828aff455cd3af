"""Feature gates of Kubernetes that the local cluster honours: kinds and fields that exist only with a gate.

All except ``WorkloadWithJob`` are on by default, unlike in Kubernetes, because objects must be written to use
them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from quorate.api import native_groups
from quorate.api.codec import Json
from quorate.local.server.registry.builtin import KINDS
from quorate.local.server.registry.kinds import Kind

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "TopologyAwareWorkloadScheduling": ("schedulingConstraints",),
    "WorkloadAwarePreemption": ("disruptionMode", "priorityClassName", "priority"),
    "DRAWorkloadResourceClaims": ("resourceClaims",),
}
"""By gate, the fields of pod groups and of their templates."""
GATES: Final = frozenset(
    {native_groups.GENERIC_WORKLOAD, "GangScheduling", native_groups.WORKLOAD_WITH_JOB, *FIELDS}
)
OFF_BY_DEFAULT: Final = frozenset({native_groups.WORKLOAD_WITH_JOB})


class InvalidGate(Exception):
    """A setting of feature gates that cannot be read."""


def disabled_gates(text: str) -> frozenset[str]:
    """Return the gates that are off with a list such as ``GenericWorkload=false``.  Raises InvalidGate."""
    values = {name: name not in OFF_BY_DEFAULT for name in GATES}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name not in GATES:
            raise InvalidGate(f"{name!r} is not one of {', '.join(sorted(GATES))}")
        if value not in ("true", "false"):
            raise InvalidGate(f"{item!r} is not NAME=true or NAME=false")
        values[name] = value == "true"
    return frozenset(name for name, is_on in values.items() if not is_on)


def served_kinds(disabled: Iterable[str]) -> Iterator[Kind]:
    """Yield the built-in kinds without those, and without the fields, of disabled gates."""
    without = frozenset(disabled)
    for kind in KINDS:
        if kind.api_version == native_groups.API_VERSION:
            if native_groups.GENERIC_WORKLOAD not in without:
                yield _without_fields(kind, [name for gate in without for name in FIELDS.get(gate, ())])
        elif kind.resource == "pods" and native_groups.GENERIC_WORKLOAD in without:
            yield _without_fields(kind, ["schedulingGroup"])
        else:
            yield kind


def _without_fields(kind: Kind, names: Iterable[str]) -> Kind:
    """Return the kind with new objects that do not have the fields in their spec or its templates."""
    if not (removed := tuple(names)):
        return kind
    prepare = kind.strategy.prepare_for_create

    def prepare_for_create(obj: Json) -> None:
        for part in (obj["spec"], *obj["spec"].get("podGroupTemplates", ())):
            for name in removed:
                part.pop(name, None)
        prepare(obj)

    return replace(kind, strategy=replace(kind.strategy, prepare_for_create=prepare_for_create))
