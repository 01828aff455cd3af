"""``python -m tests.install.record_dashboards``: record the series of the dashboards from a real run.

The controllers, the gang scheduler and the witness run as processes beside a local cluster, and are scraped
as by Prometheus.  Written is what the queries of the dashboards name, a series and its values a line.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.request import urlopen

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.commands import QUORATE, ROOT, cluster, kubectl, poll
from tests.install.dashboard_queries import named_series
from tests.observe.listening import free_port

Json = dict[str, Any]
Samples = dict[str, list[tuple[int, float]]]  # seconds since the first scrape, and values, by series

RECORDED: Final = Path(__file__).with_name("recorded_dashboards.txt")
WORLD: Final = Path(__file__).with_name("dashboards_world.yaml")
INTERVAL_S: Final = 5
SCRAPES: Final = 24
PROCESSES: Final = ("controllers", "scheduler", "witness")
KEPT: Final = "workloads.kueue.x-k8s.io"  # the resource of which durations of requests are kept
NODES: Final = ("--nodes", "1", "--node-cpu", "16", "--pool", "name=gpu,count=1,cpu=4,example.com/gpu=1")
CONFIGURATION: Final = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
auditInterval: 10s
metrics: {{bindAddress: "{address}", enableClusterQueueResources: true}}
integrations: {{frameworks: [batch/job]}}
"""
NAMED: Final = named_series()


# What users create.


def job(name: str, queue: str, pods: int = 1, lasts: str = "8s", priority: str = "") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    annotations = {"simulate.quorate.dev/duration": lasts}
    template = {"metadata": {"annotations": annotations}, "spec": pod_spec({"cpu": "1"})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "suspend": True, "template": template},
    }


def planned_job(name: str, pods: int, lasts: str, priority: str = "") -> Json:
    made = job(name, "planned", pods, lasts, priority)
    made["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "40"
    return made


def far_job(name: str) -> Json:
    made = job(name, "far", lasts="3s")
    return {**made, "spec": {**made["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}


def pod_spec(requests: Mapping[str, str]) -> Json:
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": requests, "limits": limits}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {"restartPolicy": "Never", "containers": [container]}


def group(name: str, members: int, created: int, requests: Mapping[str, str]) -> Iterator[Json]:
    """Yield a pod group of queue ``team``, and those of its pods that exist."""
    about = {"name": name, "namespace": "default"}
    spec = {"minMember": members, "queue": "team", "minResources": requests}
    yield {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": about, "spec": spec}
    for number in range(created):
        annotations = {
            "scheduling.k8s.io/group-name": name,
            "simulate.quorate.dev/duration": "forever",
        }
        metadata = {**about, "name": f"{name}-{number}", "annotations": annotations}
        spec = {"schedulerName": "quorate", **pod_spec(requests)}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def objects_at(scrape: int) -> Iterator[Json]:
    """Yield what is created before a scrape."""
    if scrape % 2:
        yield job(f"lab-{scrape}", "lab")
        yield far_job(f"far-{scrape}")
    if scrape == 2:
        yield job("long", "research", 4, "forever")
        yield from group("placed", 1, 1, {"cpu": "500m", "example.com/gpu": "1"})
        yield from group("admitted", 2, 1, {"cpu": "500m"})
        yield from group("refused", 1, 1, {"cpu": "8"})
        yield planned_job("before", 1, "10s")
        yield planned_job("kept", 2, "6s")
    if scrape == 5:
        yield job("urgent", "research", 2, priority="high")
        yield job("large", "research", 9)
    if scrape == 8:
        yield planned_job("other", 1, "25s")
        yield planned_job("moved", 2, "6s")
    if scrape == 10:
        yield planned_job("first", 2, "6s", "high")
    if scrape == 6:
        yield job("frozen", "frozen")
        yield job("owner", "night", lasts="30s")
        yield job("guest", "guest")
        yield from (job(f"backlog-{number}", "lab", 2) for number in range(8))


def damage(data_dir: Path) -> None:
    """Let the status of local queue ``frozen`` be refused, and an admission check be unreadable."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    rule = {"rule": "self.metadata.name != 'frozen'", "message": "it is frozen"}
    refusing = {**free, "x-kubernetes-validations": [rule]}
    for plural, schema in (("localqueues", refusing), ("admissionchecks", free)):
        definition = json.loads(kubectl(data_dir, "get", "crd", f"{plural}.kueue.x-k8s.io", "-o", "json"))
        for version in definition["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": schema}
            version.pop("selectableFields", None)
        applied(data_dir, [definition], "replace")
    damaged = ("patch", "admissioncheck", "damaged", "--type=merge", "-p", '{"spec": {"controllerName": 5}}')
    poll(lambda: accepts(data_dir, *damaged), bool, within_s=30.0)


def accepts(data_dir: Path, *arguments: str) -> bool:
    try:
        kubectl(data_dir, *arguments)
    except AssertionError:  # the new definition is not in effect yet
        return False
    return True


def applied(data_dir: Path, objects: list[Json], verb: str = "create") -> None:
    path = data_dir.with_suffix(".yaml")
    path.write_text(yaml.safe_dump_all(objects))
    kubectl(data_dir, verb, "-f", str(path))


# The processes, and what they serve.


def record(directory: Path) -> Samples:
    """Return the samples of all scrapes."""
    data_dir = directory / "cluster"
    with cluster(data_dir, "--without-controllers", "--scheduling", "plain", *NODES), ExitStack() as stack:
        for definitions in ("deploy/crds", "deploy/crds/gang"):
            kubectl(data_dir, "apply", "--server-side", "-f", str(ROOT / definitions))
        urls = [
            stack.enter_context(serving(data_dir, verb)) for verb in ("controllers", "scheduler", "witness")
        ]
        poll(lambda: accepts(data_dir, "apply", "-f", str(WORLD)), bool, within_s=60.0)
        stack.enter_context(worker_cluster(data_dir, directory / "east"))
        damage(data_dir)
        samples: Samples = {}
        began = time.monotonic()
        for scrape in range(SCRAPES):
            if objects := list(objects_at(scrape)):
                applied(data_dir, objects)
            time.sleep(max(0.0, began + scrape * INTERVAL_S - time.monotonic()))
            for url in urls:
                scraped(url, scrape * INTERVAL_S, samples)
        return samples


@contextmanager
def worker_cluster(manager: Path, data_dir: Path) -> Iterator[None]:
    """Run the worker cluster ``east``, to which the manager gives the jobs of its queue ``far``."""
    with cluster(data_dir, "--nodes", "1", "--node-cpu", "8"):
        applied(data_dir, list(queues("far")))
        kubeconfig = kubectl(data_dir, "config", "view", "--raw", "--flatten")
        applied(manager, list(far_queues(kubeconfig)))
        status = "jsonpath={.status.conditions[?(@.type=='Active')].status}"
        connected = ("get", "multikueuecluster", "east", "-o", status)
        poll(lambda: kubectl(manager, *connected), lambda found: found == "True", within_s=60.0)
        yield


def queues(name: str, **spec: Any) -> Iterator[Json]:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": 4}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    version, about = "kueue.x-k8s.io/v1beta2", {"name": name}
    yield {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "default"}}
    body = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    yield {"apiVersion": version, "kind": "ClusterQueue", "metadata": about, "spec": body}
    local = {**about, "namespace": "default"}
    yield {"apiVersion": version, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": name}}


def far_queues(kubeconfig: str) -> Iterator[Json]:
    """Yield what a manager needs to dispatch to the worker cluster ``east``."""
    version, namespace = "kueue.x-k8s.io/v1beta2", "kueue-system"
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    secret = {"name": "east", "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": secret, "stringData": {"kubeconfig": kubeconfig}}
    for kind, name, spec in (
        ("MultiKueueCluster", "east", {"clusterSource": {"kubeConfig": {"location": "east"}}}),
        ("MultiKueueConfig", "far", {"clusters": ["east"]}),
        (
            "AdmissionCheck",
            "far",
            {
                "controllerName": "kueue.x-k8s.io/multikueue",
                "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "far"},
            },
        ),
    ):
        yield {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
    _, *rest = queues("far", admissionChecksStrategy={"admissionChecks": [{"name": "far"}]})
    yield from rest


@contextmanager
def serving(data_dir: Path, verb: str) -> Iterator[str]:
    """Run a process that serves metrics, and return the URL of them."""
    address = f"127.0.0.1:{free_port()}"
    options = ["--metrics-address", address]
    if verb == "controllers":
        configuration = data_dir.with_name("configuration.yaml")
        configuration.write_text(CONFIGURATION.format(address=address))
        options = ["--config", str(configuration)]
    command = [*QUORATE, verb, "--kubeconfig", str(data_dir / "kubeconfig"), *options]
    log = data_dir.with_name(f"{verb}.log")
    with log.open("w") as output, subprocess.Popen(command, stderr=output, cwd=ROOT) as process:
        try:
            poll(lambda: scraped(f"http://{address}/metrics", 0, {}), bool, within_s=60.0)
            yield f"http://{address}/metrics"
        finally:
            process.terminate()
            process.wait(20)
            sys.stderr.write(log.read_text())


def scraped(url: str, at_s: int, samples: Samples) -> bool:
    """Add what the dashboards read of one process; return False if it does not answer."""
    try:
        with urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return False
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            is_kept = "le" not in sample.labels or sample.labels.get("resource", KEPT) == KEPT
            if sample.name in NAMED and is_kept:
                labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                samples.setdefault(f"{sample.name}{{{labels}}}", []).append((at_s, sample.value))
    return True


def as_text(samples: Samples) -> str:
    """Return a line for each series: the name, the second of the first sample, and runs of equal values."""
    lines = []
    for series, values in sorted(samples.items()):
        runs = [f"{value:.6g}x{len([*run])}" for value, run in groupby(value for _, value in values)]
        lines.append(f"{series} {values[0][0]} {' '.join(runs)}\n")
    return "".join(lines)


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        RECORDED.write_text(as_text(record(Path(made))))
