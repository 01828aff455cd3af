"""Read the tables and the manifests of a documentation page, with the manifests validated."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from quorate.api import codec
from quorate.api.configuration import load_configuration
from quorate.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from quorate.api.meta import Key
from quorate.api.validation import manifest_findings
from quorate.queueing.explain import can_never_fit, why_pending
from tests.queueing.notation import Json
from tests.queueing.world import World

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"
Row = dict[str, str]


class Section:
    """The text below one heading."""

    def __init__(self, text: str) -> None:
        self.text = text

    def objects(self) -> list[Json]:
        """Return the manifests in order, after checking that each is valid."""
        blocks = [part.split("```", 1)[0] for part in self.text.split("```yaml\n")[1:]]
        objects = [body for block in blocks for body in yaml.load_all(block, Loader=yaml.CSafeLoader)]
        assert objects
        for body in objects:
            assert manifest_findings(body) == []
        return objects

    def table(self, *columns: str) -> list[Row]:
        """Return the rows of the only table with exactly these columns."""
        lines = self.text.splitlines()
        head = f"| {' | '.join(columns)} |"
        assert lines.count(head) == 1, f"expected one table with the head {head}"
        rows = []
        for line in lines[lines.index(head) + 2 :]:
            if not line.startswith("|"):
                break
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows.append(dict(zip(columns, cells, strict=True)))
        assert rows
        return rows


def section(page: str, heading: str) -> Section:
    text = (CONCEPTS / page).read_text()
    assert text.count(f"\n## {heading}\n") == 1
    return Section(text.split(f"\n## {heading}\n")[1].split("\n## ")[0])


def job(name: str, queue: str, cpu: str, **fields: Any) -> Json:
    """Return a job of one pod in the notation of the test vectors; ``create_jobs`` creates it."""
    return {"name": name, "queue": queue, "requests": {"cpu": cpu}, "create": "later", **fields}


class Example(World):
    """The manifests of a page, and jobs that a test creates in sequence."""

    def __init__(self, objects: Iterable[Json], jobs: list[Json], config: Json | None = None) -> None:
        bodies = list(objects)
        fields = dict(config or {})
        for body in [body for body in bodies if body["kind"] == "Configuration"]:
            bodies.remove(body)
            assert not load_configuration(yaml.safe_dump(body)).warnings
            fields |= {name: body[name] for name in body.keys() - {"apiVersion", "kind"}}
        super().__init__({"now": 100_000, "config": fields, "workloads": jobs})
        for body in bodies:
            self.put_manifest(body)

    def put_manifest(self, body: Json) -> None:
        body = copy.deepcopy(body)
        match body["kind"]:
            case "ResourceFlavor":
                self.state.put_flavor(codec.convert(ResourceFlavor, body))
            case "Cohort":
                self.state.put_cohort(codec.convert(Cohort, body))
            case "ClusterQueue":
                self.state.put_cluster_queue(codec.convert(ClusterQueue, body))
            case "LocalQueue":
                body["metadata"].setdefault("namespace", "default")
                self.state.put_local_queue(codec.convert(LocalQueue, body))
                self.given.setdefault("localQueues", {})[body["metadata"]["name"]] = body["spec"]
            case kind:
                raise ValueError(f"{kind} is not supported on these pages")

    def create_jobs(self, *names: str) -> None:
        """Create the jobs ``names`` and run an admission cycle."""
        self.run({"create": list(names)})
        self.decide_all()

    def decide_all(self) -> None:
        self.carry_out(self.admission_cycle.run(self.now).decisions)
        self.settle()

    def leave(self, *names: str) -> None:
        """Report that the evicted jobs ``names`` have stopped, and run an admission cycle."""
        self.run({"evictionDone": list(names)})
        self.decide_all()

    def why(self, name: str) -> str:
        hold = why_pending(self.state, Key("default", name))
        assert hold is not None, f"{name} is not pending"
        return hold.message

    def can_never_fit(self, name: str) -> bool:
        return can_never_fit(self.state, Key("default", name))

    def flavor(self, name: str) -> str | None:
        """Return the flavor of an admitted job of one pod set; None while it is pending."""
        admission = self.admitted().get(name)
        if admission is None:
            return None
        (flavor,) = {flavor for pods in admission.pod_set_assignments for flavor in pods.flavors.values()}
        return flavor

    def pods(self, name: str) -> int:
        """Return the number of pods of an admitted job."""
        return sum(pods.count or 0 for pods in self.admitted()[name].pod_set_assignments)
