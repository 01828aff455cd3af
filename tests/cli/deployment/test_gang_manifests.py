"""``deploy/gang``: the gang scheduler in a cluster, apart from the queueing controllers."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from quorate.api.scheduler_configuration import default_scheduler_configuration, load_scheduler_configuration
from quorate.cli.deployment import scheduler
from quorate.cli.deployment.manifests import IMAGE, gang_installation
from quorate.cli.deployment.scheduler import LEGACY_RULES, PROVISIONING_RULES, SCHEDULER_RULES
from tests.cli.conftest import Quorate
from tests.cli.deployment.test_chart import named, rendered
from tests.cli.deployment.test_manifests import DEPLOY, objects

Json = dict[str, Any]
FILES = gang_installation(scheduler.NAMESPACE, IMAGE)
CONTROLLER_RULES = (*SCHEDULER_RULES, *PROVISIONING_RULES, *LEGACY_RULES)


def installed(kind: str) -> Iterator[Json]:
    for name, text in FILES.items():
        if name.suffix == ".yaml":
            yield from (each for each in objects(text) if each["kind"] == kind)


@pytest.mark.parametrize("name", FILES, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == FILES[name], again


def test_the_configuration_that_is_shipped_is_the_default_one() -> None:
    (config_map,) = installed("ConfigMap")
    loaded = load_scheduler_configuration(config_map["data"]["volcano-scheduler.conf"])
    assert loaded.warnings == ()
    assert loaded.configuration == default_scheduler_configuration()


def test_the_pod_is_restricted_and_reads_the_configuration() -> None:
    (deployment,) = installed("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["priorityClassName"] == "system-cluster-critical"
    (config_map,) = installed("ConfigMap")
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["configuration"]["configMap"]["name"] == config_map["metadata"]["name"]
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "configuration")
    assert f"{mount['mountPath']}/{scheduler.CONFIGURATION_FILE}" in container["args"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for other in (*installed("PodDisruptionBudget"), *installed("NetworkPolicy")):
        selector = other["spec"].get("selector") or other["spec"]["podSelector"]
        assert selector["matchLabels"] == labels


def test_the_command_line_of_the_pod_is_understood(quorate: Quorate) -> None:
    (deployment,) = installed("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert quorate(*container["args"], "--help").code == 0


def test_metrics_are_served_where_the_service_leads_and_the_monitor_looks() -> None:
    (deployment,) = installed("Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    args = container["args"]
    assert args[args.index("--metrics-address") + 1] == f":{ports['metrics']}"
    (service,), (policy,) = installed("Service"), installed("NetworkPolicy")
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] == "metrics"
    (allowed,) = policy["spec"]["ingress"]
    assert sorted(each["port"] for each in allowed["ports"]) == sorted(ports.values())
    (monitor,) = installed("ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert [each["port"] for each in monitor["spec"]["endpoints"]] == [port["name"]]
    others = objects((DEPLOY / "services.yaml").read_text())
    assert not any(wanted.items() <= each["metadata"]["labels"].items() for each in others)


def test_another_namespace_and_image_are_written_everywhere() -> None:
    written = "".join(gang_installation("batch", "registry.example/q:1").values())
    assert scheduler.NAMESPACE not in written
    assert "image: registry.example/q:1" in written


def test_nothing_of_it_is_applied_with_the_rest_nor_are_definitions_with_it() -> None:
    (kustomization,) = objects(FILES[PurePosixPath("gang/kustomization.yaml")])
    assert "kustomization.yaml" not in kustomization["resources"]
    assert not any("crd" in name or "optional" in name for name in kustomization["resources"])
    assert "gang" not in (DEPLOY / "kustomization.yaml").read_text()


def test_no_right_is_wider_than_it_must_be() -> None:
    for right in CONTROLLER_RULES:
        assert "*" not in (right.group, *right.resources, *right.verbs)
        assert not {"escalate", "bind", "impersonate", "deletecollection", "update"} & {*right.verbs} or (
            right.resources == ("podgroups/finalizers",)
        )
        assert "secrets" not in right.resources
    given = [(right.group, right.namespace, *each) for right in CONTROLLER_RULES for each in right]
    assert sorted({each for each in given if given.count(each) > 1}) == []


def test_who_edits_jobs_cannot_say_that_a_pod_group_is_admitted() -> None:
    roles = {each["metadata"]["name"]: each for each in installed("ClusterRole")}

    def may_write(role: str) -> set[str]:
        rules = roles[role]["rules"]
        return {name for rule in rules if "patch" in rule["verbs"] for name in rule["resources"]}

    def added_to(role: str) -> list[str]:
        labels = roles[role]["metadata"]["labels"]
        return [name.rpartition("-to-")[2] for name in labels if "aggregate-to" in name]

    assert may_write("quorate-gang-viewer-role") == set()
    assert may_write("quorate-gang-job-editor-role") == {"jobs", "commands"}
    assert may_write("quorate-gang-editor-role") == {"podgroups"}
    assert [added_to(f"quorate-gang-{who}-role") for who in ("viewer", "job-editor", "editor")] == [
        ["view"], ["edit"], ["admin"],
    ]  # fmt: skip


def chart(**values: Any) -> dict[Any, Json]:
    """What the chart installs of the scheduler, and of nothing else."""
    without = rendered()
    return {key: each for key, each in rendered(gangScheduler=values).items() if key not in without}


def test_the_chart_installs_what_the_manifests_install() -> None:
    mine: dict[Any, Json] = {}
    for name, text in gang_installation("kueue-system", IMAGE).items():
        if name.suffix == ".yaml" and name.parent.name != "optional" and name.stem != "kustomization":
            mine |= named(text)
    mine = {key: each for key, each in mine.items() if key[0] != "Namespace"}
    theirs = chart(enabled=True)
    for each in (mine, theirs):
        config_map = each["ConfigMap", "kueue-system", scheduler.CONFIGURATION]
        config_map["data"] = {file: yaml.safe_load(text) for file, text in config_map["data"].items()}
    (container,) = mine["Deployment", "kueue-system", scheduler.ACCOUNT]["spec"]["template"]["spec"][
        "containers"
    ]
    container["imagePullPolicy"] = "IfNotPresent"  # the default, which the chart writes out
    assert theirs.keys() == mine.keys()
    for key in mine:
        assert theirs[key] == mine[key], key


def test_the_values_reach_the_scheduler() -> None:
    objects = chart(
        enabled=True, replicas=3, schedulerNames=["volcano"], provisioningClass="nodes", legacyApis=True,
        nodeSelector={"pool": "system"}, schedulerConfig="actions: allocate\n",
    )  # fmt: skip
    deployment = objects["Deployment", "kueue-system", scheduler.ACCOUNT]
    pod = deployment["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    assert deployment["spec"]["replicas"] == 3
    assert args[args.index("--scheduler-name") + 1] == "volcano"
    assert args[args.index("--provisioning-class") + 1] == "nodes"
    assert pod["nodeSelector"] == {"pool": "system"}
    config_map = objects["ConfigMap", "kueue-system", scheduler.CONFIGURATION]
    assert config_map["data"]["volcano-scheduler.conf"].strip() == "actions: allocate"
    assert "--legacy-apis" in args
    monitor = ("ServiceMonitor", "kueue-system", scheduler.ACCOUNT)
    assert monitor not in objects
    assert monitor in rendered(enablePrometheus=True, gangScheduler={"enabled": True})
    assert monitor not in rendered(enablePrometheus=True)
    assert {("ClusterRole", "", f"quorate-scheduler-{what}") for what in ("demand", "legacy")} <= {*objects}
