"""The witness finds pods that run outside of quota: recorded states of known faults."""

import pytest
from prometheus_client import generate_latest

from quorate.api.configuration import load_configuration
from quorate.api.configuration.queueing import ResourceOptions
from quorate.witness.metrics import WitnessMetrics
from quorate.witness.witness import Facts
from tests.witness.objects import (
    GRACE_S,
    a_claim,
    a_pod,
    a_queue,
    a_slice,
    a_workload,
    facts,
    owner,
    pods,
    show,
    started,
)


def _options(text: str) -> ResourceOptions:
    gates = "featureGates: {KueueDRAIntegrationConsumableCapacity: true}"
    head = f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{gates}\n"
    return load_configuration(f"{head}resources: {text}").configuration.resources


_CREDITS = "{input: example.com/vram, strategy: Replace, outputs: {example.com/credits: 2}}"
EXCLUDED = _options(f"{{excludeResourcePrefixes: [example.com/vram], transformations: [{_CREDITS}]}}")
DEVICE_CLASSES = _options("{deviceClassMappings: [{name: gpus, deviceClassNames: [gpu.example.com]}]}")
_SOURCE = "{name: memory, driver: example.com, deviceSelector: {cel: {expression: 'true'}}}"
_MAPPING = f"{{name: gpu.memory, deviceClassNames: [gpu.example.com], sources: [{{%s: {_SOURCE}}}]}}"
SHARED_DEVICES = _options(f"{{deviceClassMappings: [{_MAPPING % 'capacity'}]}}")
PARTITIONS = _options(f"{{deviceClassMappings: [{_MAPPING % 'counter'}]}}")
ANY = [{"name": "any", "firstAvailable": [{"name": "small", "deviceClassName": "gpu.example.com"}]}]
DEVICES = {"name": "main", "resources": {"requests": {"cpu": "1", "example.com/vram": "10"}}}
OVER = "OverLimit ClusterQueue q default/cpu"
UNADMITTED = "WithoutAdmission Namespace ns /pods"
POD_OF_GROUP = {"kueue.x-k8s.io/pod-group-name": "group", "kueue.x-k8s.io/managed": "true"}


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(
            facts(a_queue(cpu=6), a_workload("wide"), a_workload("next"), *pods("wide", 4), *pods("next", 4)),
            [f"{OVER} +2"],
            id="parallelism above completions: too many pods count as reclaimed",
        ),
        pytest.param(
            facts(a_queue(cpu=4), a_workload("set"), a_workload("next"), *pods("set", 4), *pods("next", 3)),
            [f"{OVER} +3"],
            id="a set of jobs starts again after three of them gave back their quota",
        ),
        pytest.param(
            facts(a_queue(cpu=2), a_workload("job"), *pods("job", 4, cpu="2")),
            [f"{OVER} +6"],
            id="a LimitRange is charged where pods request their limits",
        ),
        pytest.param(
            facts(
                a_queue(cpu=1),
                a_workload("job"),
                *pods("job", 1, spec={"resources": {"requests": {"cpu": "3"}}}),
            ),
            [f"{OVER} +2"],
            id="pod-level requests are larger than those of the containers",
        ),
        pytest.param(
            facts(
                a_queue("q", default={"cpu": 4, "example.com/credits": 10}),
                a_workload("job", flavors={"cpu": "default"}),
                *pods("job", 1, spec={"containers": [DEVICES]}),
                resources=EXCLUDED,
            ),
            ["OverLimit ClusterQueue q default/example.com/credits +10"],
            id="an excluded resource is transformed",
        ),
        pytest.param(
            facts(
                a_queue("q", default={"cpu": 4, "gpus": 2}),
                a_workload("job", flavors={"cpu": "default", "gpus": "default"}),
                *pods("job", 2),
                a_claim("c0", "job-0", "gpu", "gpu"),
                resources=DEVICE_CLASSES,
            ),
            [],
            id="as many claimed devices as there is quota for",
        ),
        pytest.param(
            facts(
                a_queue("q", default={"cpu": 4, "gpus": 2}),
                a_workload("job", flavors={"cpu": "default", "gpus": "default"}),
                *pods("job", 3),
                a_claim("c0", "job-0", "gpu", "gpu"),
                a_claim("c1", "job-1", "any/small", requests=ANY),
                a_claim("c2", "job-2"),  # not allocated
                resources=DEVICE_CLASSES,
            ),
            ["OverLimit ClusterQueue q default/gpus +1"],
            id="more claimed devices",
        ),
        pytest.param(
            facts(
                a_queue("q", default={"cpu": 4, "gpu.memory": "20"}),
                a_workload("job", flavors={"cpu": "default", "gpu.memory": "default"}),
                *pods("job", 2),
                a_claim("c0", "job-0", "gpu", "gpu", consumed={"memory": "10"}),
                a_claim("c1", "job-1", "gpu", consumed={"example.com/memory": "5", "cores": "1"}),
                resources=SHARED_DEVICES,
            ),
            ["OverLimit ClusterQueue q default/gpu.memory +5"],
            id="more capacity of shared devices",
        ),
        pytest.param(
            facts(
                a_queue("q", default={"cpu": 4, "gpu.memory": "20"}),
                a_workload("job", flavors={"cpu": "default", "gpu.memory": "default"}),
                *pods("job", 2),
                a_claim("half", "job-0", "gpu"),
                a_claim("whole", "job-1", "gpu"),
                a_slice(half={"memory": "10", "cores": "4"}, whole={"memory": "15"}, free={"memory": "15"}),
                resources=PARTITIONS,
            ),
            ["OverLimit ClusterQueue q default/gpu.memory +5"],
            id="more of a counter of partitioned devices",
        ),
        pytest.param(
            facts(
                a_queue("p", default={"cpu": 4, "gpus": 2}),
                a_queue("q", default={"cpu": 4, "gpus": 2}),
                a_workload("one", queue="p", flavors={"cpu": "default"}),
                a_workload("two", queue="q", flavors={"cpu": "default"}),
                *pods("one", 2),
                *pods("two", 2),
                a_claim("c", "", "gpu", "gpu", "gpu", shared_by=("alien", "one-0", "one-1", "two-0")),
                resources=DEVICE_CLASSES,
            ),
            ["OverLimit ClusterQueue p default/gpus +1"],
            id="devices that pods share count once",
        ),
        pytest.param(
            facts(
                a_queue(cpu=4),
                a_workload("group", owners=[owner("Pod", "a")]),
                a_pod("a", cpu="1", labels=POD_OF_GROUP),
                a_pod("b", cpu="8", labels=POD_OF_GROUP),
            ),
            [f"{OVER} +5"],
            id="a replacement with the role hash of another pod",
        ),
        pytest.param(
            facts(a_queue(cpu=4), a_workload("job"), *pods("job", 12)),
            [f"{OVER} +8"],
            id="pods of an elastic job without their gate",
        ),
        pytest.param(
            facts(a_queue(cpu=4), a_workload("job", finished=True), a_workload("next"), *pods("job", 2)),
            [f"{UNADMITTED} +2"],
            id="the workload is finished but its pods run",
        ),
        pytest.param(
            facts(
                a_queue(cpu=4),
                a_workload("job"),
                *pods("job", 4),
                *pods("child", 7),
                owners={"Job-child": "Job-job"},
            ),
            [f"{OVER} +7"],
            id="pods of a job that an admitted job owns",
        ),
        pytest.param(
            facts(a_queue(cpu=4), a_pod("p", labels={"kueue.x-k8s.io/managed": "true"})),
            [f"{UNADMITTED} +1"],
            id="a marked pod without a workload",
        ),
        pytest.param(
            facts(a_queue(cpu=4), a_pod("p", finalizers=["kueue.x-k8s.io/managed"])),
            [f"{UNADMITTED} +1"],
            id="a pod with the finalizer, without a workload",
        ),
    ],
)
def test_a_fault_is_a_difference(state: Facts, want: list[str]) -> None:
    witness = started()
    assert show(witness.observe(state, 50.0)) == want
    report = witness.observe(state, 50.0 + GRACE_S)
    assert report.lasting == report.differences


def test_a_workload_that_is_deleted_leaves_its_pods_counted() -> None:
    witness = started()
    queue, running = a_queue(cpu=4), pods("job", 6)
    witness.observe(facts(queue, a_workload("job"), *running), 50.0)
    assert show(witness.observe(facts(queue, *running), 60.0)) == [f"{OVER} +2", f"{UNADMITTED} +6"]


def test_a_workload_that_lost_its_quota_is_counted_with_its_last_admission() -> None:
    witness = started()
    queue, running = a_queue(cpu=4), pods("job", 4)
    witness.observe(facts(queue, a_workload("job"), *running), 50.0)
    evicted = facts(queue, a_workload("job", admitted=False), a_workload("next"), *running, *pods("next", 4))
    assert show(witness.observe(evicted, 60.0)) == [f"{OVER} +4", f"{UNADMITTED} +4"]


def test_a_difference_that_ends_in_time_is_not_lasting() -> None:
    """Pods that terminate make one."""
    witness = started()
    queue, both = a_queue(cpu=4), (a_workload("old"), a_workload("new"))
    over = facts(queue, *both, *pods("old", 1), *pods("new", 4))
    assert witness.observe(over, 50.0).lasting == ()
    assert witness.observe(over, 49.0 + GRACE_S).lasting == ()
    assert witness.observe(facts(queue, *both, *pods("new", 4)), 52.0 + GRACE_S).differences == ()
    assert witness.observe(over, 53.0 + GRACE_S).lasting == ()


def test_the_report_says_of_which_resources_the_use_is_not_known() -> None:
    claim = a_claim("c", "job-0", "gpu", consumed={"memory": "5Gi"})
    of_other, of_claim = a_slice(other={"memory": "5Gi"}), a_slice(c={"memory": "5Gi"})
    for resources, slices, uncounted in (
        (PARTITIONS, (), ("gpu.memory",)),
        (PARTITIONS, (of_other,), ("gpu.memory",)),
        (PARTITIONS, (of_claim,), ()),
        (SHARED_DEVICES, (), ()),
        (DEVICE_CLASSES, (), ()),
    ):
        report = started().observe(facts(a_queue(), claim, *slices, resources=resources), 1.0)
        assert report.uncounted == uncounted
        metrics = WitnessMetrics()
        metrics.reported(report)
        shown = generate_latest(metrics.registry).decode()
        assert ('quorate_witness_uncounted{resource="gpu.memory"} 1.0' in shown) == bool(uncounted)
