"""Scenarios of simulations: from a file, or built step by step.

    scenario = (
        Scenario(seed=7)
        .queue("research", {"cpu": 32}, cohort="all")
        .jobs("notebook", queue="research", arrivals={"every": {"exponential": "3m"}, "count": 400},
              requests={"cpu": "2"}, runs={"lognormal": {"median": "10m", "sigma": 0.8}})
    )

Fields have the names of a scenario in YAML; a name with an underscore is that with a capital letter
(``min_pods`` is ``minPods``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from quorate.api import codec
from quorate.api.kueue import GROUP, VERSION
from quorate.simulate.inputs.changes import changed, changed_by_text
from quorate.simulate.inputs.scenario import API_VERSION
from quorate.simulate.inputs.world import World, read_world, read_world_text

Json = dict[str, Any]
_SOURCE: Final = "scenario"
_SEPARATOR: Final = "\n---\n"


@dataclass(frozen=True)
class Scenario:
    """Jobs and the queues that they are submitted to.  Each method returns another scenario."""

    seed: int = 0
    until: str | float | None = None  # the end of the run, such as 72h; None: when every job has ended
    path: Path | None = None  # a file or directory that it begins with
    directory: Path = Path()  # of the files of traces
    head: Json = field(default_factory=dict)  # further fields of the Scenario document
    manifests: tuple[str, ...] = ()  # in YAML or JSON, in the order in which they were added

    @classmethod
    def from_file(cls, path: str | Path) -> "Scenario":
        """Return the scenario in a file, or in the manifests of a directory.

        They are read when it is played.  Its jobs are the jobs of the file; ``queue`` and ``add`` change what
        is around them.
        """
        return cls(path=Path(path))

    def jobs(self, name: str, **fields: Any) -> "Scenario":
        """Add a class of jobs: ``queue``, ``arrivals``, ``pods``, ``requests``, ``runs`` and others."""
        return self._extended("jobs", {"name": name, **_camel(fields)})

    def trace(self, file: str | Path, **fields: Any) -> "Scenario":
        """Add the jobs of a trace in Standard Workload Format, a file in ``directory``."""
        return self._extended("traces", {"file": str(file), **_camel(fields)})

    def model(self, **fields: Any) -> "Scenario":
        """Add jobs of a model: ``lublin_feitelson={"jobs": 5000, "processors": 128}`` and ``queue``."""
        return self._extended("models", _camel(fields))

    def admission_check(self, name: str, **fields: Any) -> "Scenario":
        """Say how an admission check is answered: ``after``, and ``ready`` with a probability."""
        checks = {**self.head.get("admissionChecks", {}), name: _camel(fields)}
        return replace(self, head={**self.head, "admissionChecks": checks})

    def queue(
        self,
        name: str,
        quota: Mapping[str, str | float],
        *,
        cohort: str = "",
        flavor: str = "default",
        namespace: str = "default",
        **spec: Any,
    ) -> "Scenario":
        """Add a ClusterQueue with a quota of one flavor, and a LocalQueue of the same name.

        A queue of that name is replaced.  ``spec`` has further fields of the ClusterQueue, such as
        ``preemption={"withinClusterQueue": "LowerPriority"}``.
        """
        amounts = [{"name": resource, "nominalQuota": str(amount)} for resource, amount in quota.items()]
        groups = [{"coveredResources": [*quota], "flavors": [{"name": flavor, "resources": amounts}]}]
        queue_spec: Json = {"namespaceSelector": {}, "resourceGroups": groups, **_camel(spec)}
        if cohort:
            queue_spec["cohortName"] = cohort
        return self.add(
            [
                _kueue("ResourceFlavor", {"name": flavor}),
                _kueue("ClusterQueue", {"name": name}, spec=queue_spec),
                _kueue("LocalQueue", {"name": name, "namespace": namespace}, spec={"clusterQueue": name}),
            ]
        )

    def add(self, manifests: str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> "Scenario":
        """Add manifests: text, a path, or objects.  An object of the same kind and name is replaced."""
        match manifests:
            case Path():
                text = manifests.read_text(encoding="utf-8")
            case str():
                text = manifests
            case Mapping():
                text = codec.encode(manifests).decode()
            case _:
                text = _SEPARATOR.join(codec.encode(manifest).decode() for manifest in manifests)
        return replace(self, manifests=(*self.manifests, text))

    def world(self) -> World:
        """Return what the scenario describes.  Raises ``InvalidWorld`` with all findings."""
        if self.path is not None:
            return self._with_manifests(read_world(self.path))
        head = _without_none({"seed": self.seed, "until": self.until, **self.head})
        document = {"apiVersion": API_VERSION, "kind": "Scenario", **head}
        text = _SEPARATOR.join([codec.encode(document).decode(), *self.manifests])
        return read_world_text(text, _SOURCE, self.directory)

    def applied_to(self, world: World) -> World:
        """Return ``world`` with this as a change: its manifests, and its jobs if it has any.

        Raises ``InvalidWorld``.
        """
        if self.path is not None:
            return self._with_manifests(changed(world, self.path))
        if self.head:
            return self.world()
        return self._with_manifests(world)

    def _with_manifests(self, world: World) -> World:
        if not self.manifests:
            return world
        return changed_by_text(world, _SEPARATOR.join(self.manifests), _SOURCE)

    def _extended(self, name: str, item: Json) -> "Scenario":
        if self.path is not None:
            raise ValueError(
                f"a scenario from a file has the {name} of the file ({self.path}: write them there)"
            )
        return replace(self, head={**self.head, name: [*self.head.get(name, ()), item]})


def _without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _kueue(kind: str, metadata: Json, **fields: Any) -> Json:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": metadata, **fields}


def _camel(fields: Mapping[str, Any]) -> Json:
    return {_camel_name(name): value for name, value in fields.items()}


def _camel_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
