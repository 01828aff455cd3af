"""The pods of a Volcano Job: labels and annotations of the job, and what its plugins add."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.volcano.job import Job, with_defaults
from quorate.api.volcano.plugin_arguments import flags
from quorate.controllers.volcano.job.job_sync import NewPod
from quorate.controllers.volcano.job.plugins import plugins_of
from quorate.controllers.volcano.job.pod_builder import build_pods
from quorate.controllers.volcano.job.pod_manifest import PodManifest


def a_job(tasks: list[dict[str, Any]], metadata: dict[str, Any] | None = None, **spec: Any) -> Job:
    head = {"name": "train", "namespace": "team", "uid": "1234", **(metadata or {})}
    status = {"version": 2, "retryCount": 1}
    return with_defaults(
        codec.convert(Job, {"metadata": head, "spec": {"tasks": tasks, **spec}, "status": status})
    )


def a_task(name: str, replicas: int = 1, container: str = "main", **template: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": container, "image": "trainer"}], **template}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def pod_of(job: Job, task: str = "worker", index: int = 0) -> dict[str, Any]:
    plugins, unknown = plugins_of(job)
    assert unknown == []
    (pod,) = build_pods(job, [NewPod(task, index)], plugins, 0)
    assert isinstance(pod, PodManifest)
    return pod.body


def env_of(pod: dict[str, Any]) -> dict[str, str]:
    return {
        each["name"]: each.get("value", each.get("valueFrom", {}).get("configMapKeyRef", {}).get("name"))
        for each in pod["spec"]["containers"][0].get("env", [])
    }


def test_a_pod_is_its_template_with_the_metadata_of_the_job() -> None:
    task = a_task("worker", 4) | {
        "topologyPolicy": "best-effort",
        "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2},
    }
    task["template"]["metadata"] = {"labels": {"app": "bert"}, "annotations": {"note": "kept"}}
    annotations = {"volcano.sh/preemptable": "true", "other": "not inherited"}
    labels = {"volcano.sh/cooldown-time": "5m", "other": "not inherited"}
    metadata = {"annotations": annotations, "labels": labels}
    job = a_job([task], metadata, queue="research", priorityClassName="high")
    assert pod_of(job, index=3) == {
        "metadata": {
            "name": "train-worker-3",
            "namespace": "team",
            "labels": {
                "app": "bert",
                "volcano.sh/job-name": "train",
                "volcano.sh/job-namespace": "team",
                "volcano.sh/queue-name": "research",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "3",
                "volcano.sh/partition-id": "1",
                "volcano.sh/cooldown-time": "5m",
            },
            "annotations": {
                "note": "kept",
                "scheduling.k8s.io/group-name": "train-1234",
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": "3",
                "volcano.sh/job-name": "train",
                "volcano.sh/queue-name": "research",
                "volcano.sh/job-version": "2",
                "volcano.sh/job-retry-count": "1",
                "volcano.sh/template-uid": "train-worker",
                "volcano.sh/preemptable": "true",
                "volcano.sh/numa-topology-policy": "best-effort",
            },
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "train",
                    "uid": "1234",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "containers": [{"name": "main", "image": "trainer"}],
            "schedulerName": "volcano",
            "priorityClassName": "high",
        },
    }


def test_the_template_overrides_scheduler_and_priority() -> None:
    job = a_job([a_task("worker", schedulerName="own", priorityClassName="mine")], priorityClassName="high")
    spec = pod_of(job)["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("own", "mine")


def test_volumes_are_mounted_in_all_containers_and_each_claim_is_one_volume() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/again", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        {"mountPath": "/tmp/work"},
    ]
    pod = pod_of(a_job([a_task("worker")], volumes=volumes))
    assert pod["spec"]["volumes"] == [
        {"name": "job-volume-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "job-volume-2", "persistentVolumeClaim": {"claimName": "train-volume-2"}},
        {"name": "job-volume-3", "emptyDir": {}},
    ]
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert [(mount["mountPath"], mount["name"][-1]) for mount in mounts] == [
        ("/data", "0"), ("/again", "0"), ("/out", "2"), ("/tmp/work", "3"),
    ]  # fmt: skip


def test_env_sets_the_index() -> None:
    pod = pod_of(a_job([a_task("worker", 3)], plugins={"env": []}), index=2)
    assert env_of(pod) == {"VC_TASK_INDEX": "2", "VK_TASK_INDEX": "2"}


def test_svc_sets_hostnames_and_lists_them() -> None:
    job = a_job([a_task("ps-a", 1), a_task("worker", 2)], plugins={"svc": []})
    pod = pod_of(job, index=1)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-worker-1", "train")
    names = ["VC_PS_A_HOSTS", "VC_PS_A_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM"]
    assert env_of(pod) == dict.fromkeys(names, "train-svc")
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "train-svc", "mountPath": "/etc/volcano"}
    ]
    config_map, service, policy = (each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert config_map.body["data"] == {
        "ps_a.host": "train-ps-a-0.train",
        "VC_PS_A_HOSTS": "train-ps-a-0.train",
        "VC_PS_A_NUM": "1",
        "worker.host": "train-worker-0.train\ntrain-worker-1.train",
        "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train",
        "VC_WORKER_NUM": "2",
    }
    selector = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team"}
    assert (service.name, service.body["spec"]) == ("train", {"clusterIP": "None", "selector": selector})
    own = {"matchLabels": selector}
    assert (policy.name, policy.body["spec"]) == (
        "train",
        {"podSelector": own, "ingress": [{"from": [{"podSelector": own}]}], "policyTypes": ["Ingress"]},
    )


def test_svc_flags_publish_unready_pods_and_omit_the_network_policy() -> None:
    arguments = ["--publish-not-ready-addresses=true", "--disable-network-policy=true"]
    job = a_job([a_task("worker")], plugins={"svc": arguments})
    _, service = (each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert service.body["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("flag", ["--inject-hosts-env=false", "-inject-hosts-env=False"])
def test_svc_without_variables_still_mounts_the_hosts(flag: str) -> None:
    job = a_job([a_task("worker", 2)], plugins={"svc": [flag]})
    pod = pod_of(job)
    assert env_of(pod) == {}
    assert pod["spec"]["hostname"] == "train-worker-0"
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "train-svc", "mountPath": "/etc/volcano"}
    ]
    config_map = next(each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert config_map.body["data"]["VC_WORKER_NUM"] == "2"


def test_a_pod_with_host_network_resolves_cluster_names() -> None:
    assert (
        pod_of(a_job([a_task("worker", hostNetwork=True)]))["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    )
    own = a_job([a_task("worker", hostNetwork=True, dnsPolicy="Default")])
    assert pod_of(own)["spec"]["dnsPolicy"] == "Default"


def test_a_template_may_set_the_hostname() -> None:
    job = a_job([a_task("worker", 2, hostname="boss", subdomain="office")], plugins={"svc": []})
    assert pod_of(job)["spec"]["hostname"] == "boss"
    config_map = next(each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert config_map.body["data"]["VC_WORKER_HOSTS"] == "boss.office"


@pytest.mark.parametrize(
    ("arguments", "path", "mode", "number"),
    [([], "/root/.ssh", 0o600, 22), (["--no-root"], "/etc/volcano/.ssh", 0o644, 22),
     (["--ssh-key-file-path=/home/me/.ssh"], "/home/me/.ssh", 0o644, 22),
     (["--ssh-port=2222"], "/root/.ssh", 0o600, 2222), (["--ssh-port=0"], "/root/.ssh", 0o600, 22)],
)  # fmt: skip
def test_ssh_mounts_the_keys(arguments: list[str], path: str, mode: int, number: int) -> None:
    job = a_job([a_task("worker", 2)], plugins={"ssh": arguments})
    pod = pod_of(job)
    assert pod["spec"]["volumes"][0]["secret"]["defaultMode"] == mode
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "train-ssh", "mountPath": path, "subPath": ".ssh"}
    ]
    (secret,) = (each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert secret.generates_keys
    assert secret.body["stringData"]["config"].endswith(
        f"Host train-worker-0\n  HostName train-worker-0.train\n  Port {number}\n"
        f"Host train-worker-1\n  HostName train-worker-1.train\n  Port {number}\n"
    )


def test_ssh_uses_given_keys_in_every_container() -> None:
    keys = ["--ssh-private-key=-----BEGIN\nx=y\n", "--ssh-public-key=ssh-rsa AAAA="]
    job = a_job([a_task("worker", initContainers=[{"name": "first"}])], plugins={"ssh": keys})
    (secret,) = (each for plugin in plugins_of(job)[0] for each in plugin.owned_objects())
    assert (secret.generates_keys, secret.is_unique) == (False, True)
    data = secret.body["stringData"]
    assert (data["id_rsa"], data["id_rsa.pub"]) == ("-----BEGIN\nx=y\n", "ssh-rsa AAAA=")
    spec = pod_of(job)["spec"]
    assert spec["initContainers"][0]["volumeMounts"] == spec["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("task", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")]
)
def test_pytorch_sets_master_and_rank(task: str, index: int, rank: str) -> None:
    job = a_job([a_task("master"), a_task("worker", 2)], plugins={"pytorch": ["--port=1234"]})
    pod = pod_of(job, task, index)
    env = env_of(pod)
    got = {name: env[name] for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")}
    assert got == {
        "MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "1234", "WORLD_SIZE": "3", "RANK": rank,
    }  # fmt: skip
    assert pod["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 1234}]
    assert pod["spec"]["subdomain"] == "train"  # svc comes along


@pytest.mark.parametrize(
    ("arguments", "task", "waits"),
    [
        ([], "worker", ""),
        (["--wait-master-enabled=false"], "worker", ""),
        (["--wait-master-enabled"], "worker", "busybox:1.36.1, port 23456, 300 s"),
        (["--wait-master-enabled"], "master", ""),
        (["--wait-master-enabled", "--wait-master-timeout=9", "--wait-master-image=a", "--port=1"],
         "worker", "a, port 1, 9 s"),
        (["--wait-master-enabled", "--wait-master-timeout=soon"], "worker",
         "busybox:1.36.1, port 23456, 300 s"),
    ],
)  # fmt: skip
def test_pytorch_workers_wait_for_the_master(arguments: list[str], task: str, waits: str) -> None:
    workers = a_task("worker", 2, initContainers=[{"name": "first"}])
    job = a_job([a_task("master"), workers], plugins={"pytorch": arguments})
    pods = [pod_of(job, task), pod_of(job, task)]
    assert pods[0] == pods[1]
    containers = pods[0]["spec"].get("initContainers", [])[1:]
    assert [each["name"] for each in containers] == (["wait-for-master"] if waits else [])
    for container in containers:
        image, port, timeout = waits.replace("port ", "").split(", ")
        script = container["command"][-1]
        assert container["image"] == image
        assert f"nc -z train-master-0.train {port}" in script
        assert f"+ {timeout.removesuffix(' s')}))" in script


def test_tensorflow_describes_the_cluster() -> None:
    job = a_job([a_task("ps"), a_task("worker", 2)], plugins={"tensorflow": []})
    pod = pod_of(job, index=1)
    # On the network of the host a port of the container is a port of the host, which only one pod can have.
    assert "ports" not in pod["spec"]["containers"][0]
    config = codec.decode(dict[str, Any], env_of(pod)["TF_CONFIG"])
    assert config == {
        "cluster": {
            "ps": ["train-ps-0.train:2222"],
            "worker": ["train-worker-0.train:2222", "train-worker-1.train:2222"],
        },
        "task": {"type": "worker", "index": 1},
    }
    assert "TF_CONFIG" not in env_of(pod_of(a_job([a_task("worker")], plugins={"tensorflow": []})))


def test_tensorflow_maps_roles_and_omits_missing_tasks() -> None:
    tasks = [a_task("ps", 0), a_task("boss"), a_task("worker", 1), a_task("judge")]
    plugins = {"tensorflow": ["--chief=boss", "--evaluator=judge", "--port=1"]}
    config = codec.decode(dict[str, Any], env_of(pod_of(a_job(tasks, plugins=plugins), "boss"))["TF_CONFIG"])
    assert config == {
        "cluster": {
            "chief": ["train-boss-0.train:1"],
            "worker": ["train-worker-0.train:1"],
            "evaluator": ["train-judge-0.train:1"],
        },
        "task": {"type": "chief", "index": 0},
    }


@pytest.mark.parametrize(
    ("task", "index", "rank"),
    [("master", 1, "1"), ("worker", 0, "2"), ("worker", 3, "5"), ("other", 0, None)],
)
def test_hcclrank_counts_masters_before_workers(task: str, index: int, rank: str | None) -> None:
    job = a_job([a_task("master", 2), a_task("worker", 4), a_task("other")], plugins={"hcclrank": []})
    assert pod_of(job, task, index)["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_hcclrank_keeps_a_rank_that_is_set() -> None:
    def rank(plugins: dict[str, list[str]], template: dict[str, Any] | None = None) -> str:
        task = a_task("w", 4)
        if template:
            task["template"]["spec"]["containers"] = [template]
        pod = pod_of(a_job([a_task("m", 2), task], plugins=plugins), "w", 1)
        return str(pod["metadata"]["annotations"].get("hccl/rankIndex"))

    names = ["--master=m", "--worker=w"]
    assert rank({"hcclrank": names}) == "3"
    assert rank({"hcclrank": names, "pytorch": names}) == "2"
    assert rank({"hcclrank": names}, {"name": "main", "env": [{"name": "RANK", "value": "7"}]}) == "7"
    assert rank({"hcclrank": []}) == "None"


def test_mpi_lists_the_workers_for_the_master() -> None:
    job = a_job([a_task("master"), a_task("worker", 2)], plugins={"mpi": []})
    assert env_of(pod_of(job, "master"))["MPI_HOST"] == "train-worker-0.train,train-worker-1.train"
    worker = pod_of(job)
    assert "MPI_HOST" not in env_of(worker)
    assert worker["spec"]["containers"][0]["ports"] == [{"name": "mpijob-port", "containerPort": 22}]
    assert {volume["name"] for volume in worker["spec"]["volumes"]} == {"train-ssh", "train-svc"}


def test_ray_starts_a_head_that_workers_join() -> None:
    job = a_job([a_task("head", container="head"), a_task("worker", container="worker")], plugins={"ray": []})
    head, worker = pod_of(job, "head"), pod_of(job)
    ports = {each["name"]: each["containerPort"] for each in head["spec"]["containers"][0]["ports"]}
    assert ports == {"gcs": 6379, "dashboard": 8265, "client-server": 10001}
    assert worker["spec"]["containers"][0]["command"][-1] == (
        "ray start --block --address=train-head-0.train:6379"
    )
    names = [each.name for plugin in plugins_of(job)[0] for each in plugin.owned_objects()]
    assert names == ["train-head-svc", "train-svc", "train", "train"]


def test_unknown_plugins_are_returned() -> None:
    assert plugins_of(a_job([a_task("worker")], plugins={"dance": []}))[1] == ["dance"]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param([], {"port": "22", "no-root": "false"}, id="no arguments"),
        pytest.param(["--port=1"], {"port": "1", "no-root": "false"}, id="with an equals sign"),
        pytest.param(["-port", "1"], {"port": "1", "no-root": "false"}, id="two words"),
        pytest.param(["--no-root"], {"port": "22", "no-root": "true"}, id="boolean flag"),
        pytest.param(["--no-root=false"], {"port": "22", "no-root": "false"}, id="boolean flag set to false"),
        pytest.param(["--other=1", "port=3"], {"port": "22", "no-root": "false"}, id="unknown flag"),
        pytest.param(["--port"], {"port": "22", "no-root": "false"}, id="missing value"),
    ],
)
def test_flags_are_parsed_as_go_does(arguments: list[str], want: dict[str, str]) -> None:
    assert flags(arguments, {"port": "22", "no-root": "false"}) == want
