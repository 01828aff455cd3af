"""Jobs that were admitted and cannot run, and others: the state and the reason of each in every list."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api.explanation import state_text
from quorate.kube.resources import NATIVE_POD_GROUPS, POD_GROUPS
from quorate.sdk.cluster import Cluster, NotWithin
from quorate.testing.server import ClusterServer, ClusterSettings, LocalCluster
from tests.e2e.commands import poll
from tests.e2e.queue_manifests import FLAVOR, cpu_queue
from tests.e2e.surfaces import differences
from tests.e2e.test_explained_states import WORLD, a_job, bound_pods, report_image_failure, tenant_of
from tests.forked_command import forked_command
from tests.observe.listening import free_port

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

Json = dict[str, Any]
WITHIN_S = 60.0
SLOW = {"simulate.quorate.dev/start-delay": "1h"}
LONG = {"simulate.quorate.dev/duration": "1h"}
QUOTA = "{name: cpu, nominalQuota: 8}"
# By job: state and code of its Workload.
WANTED = {
    "too-small": ("Stuck", "NodesLackRoom"),  # the nodes have 8 cpu each
    "picky": ("Stuck", "NodesLackRoom"),
    "four": ("Stuck", "NodesLackRoom"),  # three of four pods with 6 cpu, on three nodes
    "broken": ("Stuck", "ContainersWaiting"),
    "slow": ("Admitted", "PodsStarting"),
    "fine": ("Running", ""),
    "huge": ("NeverFits", "QuotaExceeded"),
    "next": ("Queued", "QuotaShort"),
    "stopped": ("Held", "QueueInactive"),
}
GANG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gang, namespace: team}
spec:
  schedulerName: volcano
  minAvailable: 4
  tasks:
  - name: worker
    replicas: 4
    template:
      spec:
        restartPolicy: Never
        containers: [{name: main, image: x, resources: {requests: {cpu: 9}}}]
"""


# Requested cpu of each pod of Kubernetes' own groups: none, what ending pods leave, more than any node has.
NATIVE_GANGS = {"no-pods": "", "blocked": "7", "too-large": "12"}
LICENSED = "{admissionChecks: [{name: license}]}"
# Queues of another namespace, in each of which something else keeps workloads waiting.
OTHER_QUEUES = "---".join((
    cpu_queue("strict", 2, "others/strict", field="queueingStrategy: StrictFIFO"),
    cpu_queue("preempting", 2, "others/preempting", field="preemption: {withinClusterQueue: LowerPriority}"),
    cpu_queue("planned", 2, "others/planned").replace(
        "{name: planned}", "{name: planned, annotations: {quorate.dev/backfill: EASY}}", 1
    ),
    cpu_queue("aging", 1, "others/aging").replace(
        "{name: aging}", "{name: aging, annotations: {quorate.dev/priority-aging: '{every: 1s, atMost: 1}'}}"
    ),
    cpu_queue("borrows", 2, "others/borrows", field="cohortName: lab"),
    cpu_queue("lends", 2, "team/lends", field="cohortName: lab"),
    cpu_queue("checked", 2, "others/checked", field=f"admissionChecksStrategy: {LICENSED}"),
    cpu_queue("flavorless", 2, "others/flavorless").replace("name: default,", "name: gone,"),
    cpu_queue("reserved", 20, "others/reserved").replace("name: default,", "name: rare,"),
    FLAVOR.replace("name: default", "name: rare"),
    """
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: license}
spec: {controllerName: lab.example/license}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: astray, namespace: others}
spec: {clusterQueue: nowhere}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: closed, namespace: others}
spec: {clusterQueue: strict, stopPolicy: Hold}
---
apiVersion: quorate.dev/v1alpha1
kind: Reservation
metadata: {name: night}
spec:
  start: "2026-01-01T00:00:00Z"
  durationSeconds: 86400
  recurrence: FREQ=DAILY
  amounts: [{flavor: rare, resources: {cpu: "15"}}]
  owners: {namespaces: [team]}
""",
))  # fmt: skip
URGENT = {"kueue.x-k8s.io/priority-class": "high"}
AT_MOST = {"kueue.x-k8s.io/max-exec-time-seconds": "36000"}
# By name: the queue, the requested cpu, and further labels; they are submitted in this order.
OTHER_JOBS: dict[str, tuple[str, str, dict[str, str]]] = {
    "strict-1": ("strict", "10m", {}), "strict-2": ("strict", "9", {}), "strict-3": ("strict", "1", {}),
    "low": ("preempting", "500m", {}), "high": ("preempting", "1600m", URGENT),
    "planned-1": ("planned", "1", AT_MOST), "planned-2": ("planned", "2", AT_MOST),
    "planned-3": ("planned", "1", {}),
    "aging-1": ("aging", "10m", {}), "aging-2": ("aging", "1", {}), "aging-3": ("aging", "1", URGENT),
    "borrows": ("borrows", "3", {}), "borrows-more": ("borrows", "5", {}),
    "checked": ("checked", "1", {}), "flavorless": ("flavorless", "1", {}), "window": ("reserved", "9", {}),
    "astray": ("astray", "1", {}), "closed": ("closed", "1", {}), "typo": ("mian", "1", {}),
    "deactivated": ("strict", "3", {}),
}  # fmt: skip


def submit_pod_groups(cluster: Cluster) -> None:
    spec = {"minMember": 2, "queue": "default"}
    alone = {"apiVersion": POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "alone"}}
    cluster.apply({**alone, "spec": spec})
    for name, cpu in NATIVE_GANGS.items():
        group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        cluster.apply({"apiVersion": NATIVE_POD_GROUPS.api_version, "kind": "PodGroup", **group})
        for number in range(2 if cpu else 0):
            container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
            member = {"schedulerName": "volcano", "schedulingGroup": {"podGroupName": name}}
            pod = {"metadata": {"name": f"{name}-{number}"}, "spec": {**member, "containers": [container]}}
            cluster.apply({"apiVersion": "v1", "kind": "Pod", **pod})


@pytest.fixture
def metrics() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def cluster(tmp_path: Path, metrics: str) -> Iterator[LocalCluster]:
    server = ClusterServer(tmp_path / "server")
    configuration = tmp_path / "configuration.yaml"
    configuration.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        f"metrics: {{bindAddress: '{metrics}'}}\n"
    )
    try:
        settings = ClusterSettings(
            nodes=3, cpu="8", memory="16Gi", pods=110, speed=10.0, configuration=configuration
        )
        yield replace(server.start(settings), namespace="team")
    finally:
        server.close()


def listed(cluster: Cluster, *arguments: str) -> list[Json]:
    items: list[Json] = json.loads(run(cluster, *arguments, "-o", "json").stdout)["items"]
    return items


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = () if "-n" in arguments else ("-n", "team")
    command = [str(forked_command()), *arguments, *where]
    return subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=True)


def states(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Return what the list of workloads says of each job."""
    explanations = {
        item["metadata"]["ownerReferences"][0]["name"]: item["explanation"]
        for item in listed(cluster, "workload", "list")
    }
    return {name: (found["state"], found.get("code", "")) for name, found in explanations.items()}


def submit(cluster: Cluster) -> None:
    cluster.apply(WORLD.replace(QUOTA, "{name: cpu, nominalQuota: 200}"))
    cluster.apply(cpu_queue("stopped", 8, "team/stopped", field="stopPolicy: Hold"))
    cluster.apply(a_job("too-small", cpu="12"))
    cluster.apply(a_job("picky", nodeSelector={"disk": "nvme"}))
    four = a_job("four", cpu="6", annotations=LONG)
    four["spec"] |= {"parallelism": 4, "completions": 4}
    cluster.apply(four)
    for name in ("broken", "slow"):
        cluster.apply(a_job(name, annotations=SLOW))
    cluster.apply(a_job("fine", annotations=LONG))
    cluster.apply(a_job("huge", cpu="300"))
    cluster.apply(a_job("next", cpu="190"))
    cluster.apply(a_job("stopped", labels={"kueue.x-k8s.io/queue-name": "stopped"}))
    cluster.apply(yaml.safe_load(GANG))
    poll(lambda: bound_pods(cluster, "broken"), bool, WITHIN_S)
    (pod,) = bound_pods(cluster, "broken")
    report_image_failure(cluster, pod)


def submit_others(cluster: Cluster) -> None:
    """Submit jobs of namespace ``others`` that wait, or are kept out, for reasons of all kinds."""
    cluster.apply(OTHER_QUEUES)
    for name, (queue, cpu, labels) in OTHER_JOBS.items():
        named = {**labels, "kueue.x-k8s.io/queue-name": queue}
        cluster.apply(a_job(name, cpu=cpu, namespace="others", labels=named, annotations=LONG))
        if name == "low":
            poll(lambda: bound_pods(replace(cluster, namespace="others"), "low"), bool, WITHIN_S)
    run(cluster, "workload", "stop", "job/deactivated", "-n", "others")


def test_lists_say_why_jobs_that_were_admitted_cannot_run(
    cluster: LocalCluster, tmp_path: Path, metrics: str
) -> None:
    submit(cluster)
    submit_others(cluster)
    submit_pod_groups(cluster)
    tenant = tenant_of(cluster, tmp_path / "tenant")
    for reader in (cluster, tenant):
        poll(partial(states, reader), WANTED.__eq__, WITHIN_S)

    table = run(cluster, "workload", "list").stdout.splitlines()
    place, end = table[0].index("POSITION"), table[0].index("STARTS")
    positions = {line.split()[2]: line[place:end].strip() for line in table[1:]}
    assert [name for name, position in positions.items() if position] == ["next"], (
        "only it waits for its turn"
    )
    wide = run(tenant, "workload", "list", "-o", "wide").stdout
    assert "3 of 4 pods can ever have a node" in wide

    (huge,) = (line for line in run(tenant, "status").stdout.splitlines() if line.startswith("huge "))
    assert " never " in huge
    assert " QuotaExceeded: raise nominalQuota of cpu of flavor default in cluster queue" in huge

    forecast = run(cluster, "queue", "forecast", "--plays", "1").stdout.splitlines()
    rows = {line.split()[1]: line.split() for line in forecast if line.startswith("team ")}
    by_job = {name.removeprefix("job-").rpartition("-")[0]: row for name, row in rows.items()}
    assert by_job["huge"][3:5] == ["never", "never"]
    assert by_job["huge"][-2:] == ["NeverFits", "QuotaExceeded"]
    assert by_job["stopped"][3:5] == ["held", "held"]
    assert by_job["next"][-2:] == ["Queued", "QuotaShort"]

    def gangs(reader: Cluster) -> dict[str, tuple[str, str]]:
        groups = {
            group["metadata"]["name"]: group["explanation"] for group in listed(reader, "podgroup", "list")
        }
        return {name[:5]: (group["state"], group.get("code", "")) for name, group in groups.items()}

    never, waits = ("NeverFits", "NotEnoughResources"), ("Queued", "NotEnoughResources")
    of_volcano = {"gang-": never, "alone": ("Admitted", "NotEnoughTasks")}
    poll(partial(gangs, tenant), of_volcano.__eq__, WITHIN_S)
    wanted = {**of_volcano, "no-po": ("Queued", ""), "block": waits, "too-l": never}
    poll(partial(gangs, cluster), wanted.__eq__, WITHIN_S)
    (job,) = listed(tenant, "vcjob", "list")
    assert (job["explanation"]["state"], job["explanation"]["code"]) == ("NeverFits", "NotEnoughResources")
    assert "9 cpu" in job["explanation"]["message"] or "36" in job["explanation"]["message"]
    head, row = run(tenant, "vcjob", "list").stdout.splitlines()
    assert head.split()[-2:] == ["STATE", "REASON"]
    assert row.split()[-2:] == ["NeverFits", "NotEnoughResources"]

    poll(partial(differences, cluster, f"http://{metrics}/metrics"), [].__eq__, WITHIN_S)
    for name, state in WANTED.items():
        (explanation,) = cluster.explain(f"job/{name}")
        assert (explanation.state, explanation.code) == state, name
    with pytest.raises(NotWithin) as raised:
        cluster.wait("job/four", timeout=0.1)
    (explanation,) = raised.value.explanations
    assert explanation.state == "Stuck"
    assert state_text(explanation) in str(raised.value)
    assert any("Stuck (NodesLackRoom)" in line for line in cluster.unstarted())


READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [kueue.x-k8s.io], resources: [workloads, localqueues], verbs: [get, list]}]
"""


def test_without_an_answer_lists_show_the_stored_states_and_say_so_once(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.apply(READER)
    cluster.apply(WORLD.replace("kind: ClusterRole, name: view", "kind: ClusterRole, name: reader"))
    for name, cpu in (("fine", "1"), ("huge", "9")):
        cluster.apply(a_job(name, cpu=cpu, annotations=LONG))
    wanted = {"fine": ("Running", ""), "huge": ("NeverFits", "QuotaExceeded")}
    poll(partial(states, cluster), wanted.__eq__, WITHIN_S)
    reader = tenant_of(cluster, tmp_path / "tenant")
    poll(partial(states, reader), {**wanted, "huge": ("Queued", "QuotaExceeded")}.__eq__, WITHIN_S)
    warnings = [line for line in run(reader, "workload", "list").stderr.splitlines() if "states" in line]
    assert warnings == [
        "warning: states are those of the stored objects: "
        "this needs the permission to list explanations in group visibility.quorate.dev"
    ]
