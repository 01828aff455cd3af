"""Small worlds for tests, from the text of a scenario."""

from pathlib import Path
from tempfile import TemporaryDirectory

from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER
from quorate.simulate.inputs.world import World, read_world

HEAD = "apiVersion: simulate.quorate.dev/v1alpha1\nkind: Scenario\n"
FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}\n"


def queue(name: str, cpu: int, extra: str = "namespaceSelector: {}") -> str:
    """Return a cluster queue and a local queue of one name; ``extra`` are further fields of its spec."""
    return f"""---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}]
  {extra}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {name}}}
spec: {{clusterQueue: {name}}}
"""


def world_of(scenario: str, *documents: str) -> World:
    """Return the world of a scenario without its head, and of further documents beside the flavor."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "world.yaml"
        file.write_text("\n---\n".join((HEAD + scenario, FLAVOR, *documents)))
        return read_world(file)


def run_of(scenario: str, *documents: str) -> Run:
    return play(world_of(scenario, *documents))


def spans(run: Run) -> dict[str, tuple[float, ...]]:
    """Return by class the seconds of first admission and of the end, job after job; -1 for never."""
    found: dict[str, tuple[float, ...]] = {}
    for number in range(len(run.jobs)):
        name = run.world.classes[run.jobs.class_index[number]].name
        times = (run.jobs.admitted_ms[number], run.jobs.ended_ms[number])
        found[name] = (*found.get(name, ()), *(each if each == NEVER else each / 1000 for each in times))
    return found
