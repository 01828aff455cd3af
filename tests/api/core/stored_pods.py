"""What a kube-apiserver stores for pods: the table stored-pods.jsonl, described in its first line."""

from pathlib import Path
from typing import Any

import msgspec

Json = dict[str, Any]

DEFAULTS = ("default", "defaultRequest", "max", "min")  # bounds are the defaults of missing defaults
_TABLE = Path(__file__).parent / "stored-pods.jsonl"


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and its namespace, with what the server stored or why it refused the pod."""

    limit_ranges: list[list[Json]]
    pod: Json
    stored: Json | None = None
    qos_class: str = ""
    forbidden: str = ""
    invalid: list[str] = []

    @property
    def is_ambiguous(self) -> bool:
        """Return True if two limit ranges have defaults for one resource: the server takes any first."""
        named = [
            name
            for items in self.limit_ranges
            for item in items
            if item["type"] == "Container"
            for name in {name for field in DEFAULTS for name in item.get(field, {})}
        ]
        return len(set(named)) != len(named)

    @property
    def is_out_of_bounds(self) -> bool:
        """Return True if the pod violates a limit range."""
        return bool(self.forbidden) and "pod rejected" not in self.forbidden

    @property
    def spec(self) -> Json:
        """Return the spec of the pod that was created."""
        spec = {"restartPolicy": "Never", **self.pod}
        for field, prefix in (("initContainers", "i"), ("containers", "c")):
            if field in self.pod:
                named = enumerate(self.pod[field])
                spec[field] = [{"name": f"{prefix}{n}", "image": "busybox:1", **each} for n, each in named]
        return spec


def amounts_of(spec: Json) -> Json:
    """Return the part of a stored spec that the table has."""
    amounts: Json = {}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            every = (container.get("resources", {}) for container in spec[field])
            amounts[field] = [{kind: part for kind, part in each.items() if part} for each in every]
    return amounts | {field: spec[field] for field in ("resources", "overhead") if spec.get(field)}


def read_table() -> tuple[dict[str, Json], list[Row]]:
    """Return the overheads of the runtime classes by name, and the rows."""
    head, *lines = _TABLE.read_bytes().splitlines()
    overheads: dict[str, Json] = msgspec.json.decode(head)["runtimeClasses"]
    return overheads, [msgspec.json.decode(line, type=Row) for line in lines]
