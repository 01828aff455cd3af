"""The jobs of the example get the places that its README states."""

from pathlib import Path

import pytest
import yaml

from quorate.processes.local.manifests import read_directory
from quorate.processes.local.node_pools import NODE_LABELS
from tests.e2e.commands import quorate

EXAMPLE = Path(__file__).parents[2] / "examples" / "topology"


def test_the_readme_lists_all_files() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(EXAMPLE.glob("*.yaml")) if f"`{path.name}`" not in readme] == []


def test_the_nodes_have_the_topology_of_the_example() -> None:
    manifests = read_directory(EXAMPLE)
    nodes = manifests.cluster_description.topology
    assert nodes is not None
    assert [each.file.name for each in manifests.objects if each.kind in ("Topology", "ResourceFlavor")] == [
        "topology.yaml",
        "topology.yaml",
    ]
    topology, flavor = yaml.safe_load_all((EXAMPLE / "topology.yaml").read_text(encoding="utf-8"))
    assert topology == nodes.topology
    assert flavor == nodes.flavor
    assert flavor["spec"]["nodeLabels"] == NODE_LABELS


@pytest.mark.slow
def test_the_jobs_complete() -> None:
    done = quorate("local", "run", str(EXAMPLE), "--speed", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("completed") == 5
