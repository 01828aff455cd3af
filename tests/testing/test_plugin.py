"""The pytest plugin: the test of its page passes, and each test gets a cluster of its own."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)
PLUGIN = "quorate.testing.plugin"
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tasks/test-your-operator.md").read_text()

FRESH = """
import pytest

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "left"}}


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_cluster_is_fresh(quorate_cluster, time):
    assert "left" not in {each["metadata"]["name"] for each in quorate_cluster.list("configmaps")}
    assert len(quorate_cluster.list("nodes")) == 2  # of the ini file
    quorate_cluster.apply(MAP)


@pytest.mark.quorate(nodes=3, cpu="4", configuration="manual.yaml")
def test_a_marker_sets_nodes_and_configuration(quorate_cluster):
    other = quorate_cluster.in_namespace("team-a")
    assert other.apply(MAP)[0]["metadata"]["namespace"] == "team-a"
    assert {each["status"]["allocatable"]["cpu"] for each in quorate_cluster.list("nodes")} == {"4"}
    assert len(quorate_cluster.list("nodes")) == 3
    name = "quorate-configuration-in-force"
    in_force = quorate_cluster.wait_for("configmap", name, namespace="kube-public")
    assert "manageJobsWithoutQueueName: true" in str(in_force["data"])


QUEUES = '''
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 20}]}]
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: main}, spec: {clusterQueue: research}}
'''


def test_what_cannot_start(quorate_cluster):
    quorate_cluster.apply(QUEUES)
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "12"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    job = {"metadata": {"name": "large"}, "spec": {"template": {"spec": pod}}}
    quorate_cluster.submit({"apiVersion": "batch/v1", "kind": "Job", **job}, queue="main")
    quorate_cluster.wait_for("job", "large", lambda job: not job["spec"].get("suspend"))
    quorate_cluster.wait("job/large", timeout=5)


@pytest.mark.quorate(size=3)
def test_an_unknown_setting(quorate_cluster):
    pass


@pytest.mark.quorate(configuration="absent.yaml")
def test_an_absent_configuration(quorate_cluster):
    pass
"""


CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
"""


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_test_of_the_page_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # else an installed one is registered twice
    (example,) = re.findall(r"```python\n(QUEUES = .*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(test_page=example, test_fresh=FRESH)
    pytester.makefile(".yaml", manual=CONFIGURATION)
    pytester.makeini("[pytest]\nquorate_nodes = 2\n")
    done = pytester.runpytest_subprocess("-p", PLUGIN, "-p", "no:cacheprovider", "--strict-markers")
    done.assert_outcomes(passed=4, errors=2, failed=1)
    assert "sdk/cluster.py" not in done.stdout.str(), "the traceback ends at the test"
    done.stdout.fnmatch_lines(
        [
            "*UsageError: *test_an_unknown_setting: quorate has no argument size (it has nodes, cpu, *",
            "*absent.yaml: no such file or directory*",
        ]
    )
    done.stdout.fnmatch_lines(
        [
            "*NotWithin: job/large: not as asked within 5 s: *",
            "E*Stuck (NodesLackRoom): it is admitted; 0 of 1 pods run*",
            "E*- 1 more node with 12 cpu free would do",
            "*Not started in quorate_cluster*",
            "Workload default/job-large-*: Stuck (NodesLackRoom): it is admitted; 0 of 1 pods run*",
        ]
    )


def test_the_entry_point_is_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"quorate": PLUGIN}
    assert hasattr(import_module(PLUGIN), "quorate_cluster")


def test_the_page_names_every_setting() -> None:
    table = PAGE[PAGE.index("| setting | default |") :].split("\n\n")[0]
    named = re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()))
    assert named == [*import_module(PLUGIN)._SETTINGS]


def test_a_run_without_a_cluster_imports_nothing_more() -> None:
    program = f"import sys, pytest, {PLUGIN}; print(*(m for m in sys.modules if m.startswith('quorate')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["quorate.version", "quorate", "quorate.testing", PLUGIN]
