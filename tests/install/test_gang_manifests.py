"""``deploy/gang`` installs the gang scheduler separately from the queueing controllers."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from quorate.api.scheduler_configuration import default_scheduler_configuration, load_scheduler_configuration
from quorate.install import scheduler
from quorate.install.manifests import IMAGE, gang_installation
from quorate.install.scheduler import PROVISIONING_RULES, SCHEDULER_RULES
from tests.cli.conftest import Quorate
from tests.install.test_manifests import DEPLOY, objects

Json = dict[str, Any]
FILES = gang_installation(scheduler.NAMESPACE, IMAGE)
ALL_RULES = (*SCHEDULER_RULES, *PROVISIONING_RULES)


def installed(kind: str) -> Iterator[Json]:
    for name, text in FILES.items():
        if name.suffix == ".yaml":
            yield from (each for each in objects(text) if each["kind"] == kind)


@pytest.mark.parametrize("name", FILES, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == FILES[name], again


def test_the_shipped_configuration_is_the_default() -> None:
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


def test_the_arguments_of_the_container_are_valid(quorate: Quorate) -> None:
    (deployment,) = installed("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert quorate(*container["args"], "--help").code == 0


def test_service_and_monitor_select_the_metrics_port() -> None:
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
    controller_services = objects((DEPLOY / "services.yaml").read_text())
    assert not any(wanted.items() <= each["metadata"]["labels"].items() for each in controller_services)


def test_another_namespace_and_image_are_set_everywhere() -> None:
    written = "".join(gang_installation("batch", "registry.example/q:1").values())
    assert scheduler.NAMESPACE not in written
    assert "image: registry.example/q:1" in written


def test_it_is_applied_separately_and_without_definitions() -> None:
    (kustomization,) = objects(FILES[PurePosixPath("gang/kustomization.yaml")])
    assert "kustomization.yaml" not in kustomization["resources"]
    assert not any("crd" in name or "optional" in name for name in kustomization["resources"])
    assert "gang" not in (DEPLOY / "kustomization.yaml").read_text()


def test_no_rule_is_wider_than_necessary() -> None:
    for rule in ALL_RULES:
        assert "*" not in (rule.group, *rule.resources, *rule.verbs)
        assert not {"escalate", "bind", "impersonate", "deletecollection", "update"} & {*rule.verbs} or (
            rule.resources == ("podgroups/finalizers",)
        )
        assert "secrets" not in rule.resources
    given = [(rule.group, rule.namespace, *each) for rule in ALL_RULES for each in rule]
    assert sorted({each for each in given if given.count(each) > 1}) == []


def test_job_editors_cannot_write_pod_groups() -> None:
    roles = {each["metadata"]["name"]: each for each in installed("ClusterRole")}

    def writable(role: str) -> set[str]:
        rules = roles[role]["rules"]
        return {name for rule in rules if "patch" in rule["verbs"] for name in rule["resources"]}

    def aggregated_to(role: str) -> list[str]:
        labels = roles[role]["metadata"]["labels"]
        return [name.rpartition("-to-")[2] for name in labels if "aggregate-to" in name]

    assert writable("quorate-gang-viewer-role") == set()
    assert writable("quorate-gang-job-editor-role") == {"jobs", "commands"}
    assert writable("quorate-gang-editor-role") == {"podgroups"}
    assert [aggregated_to(f"quorate-gang-{role}-role") for role in ("viewer", "job-editor", "editor")] == [
        ["view"], ["edit"], ["admin"],
    ]  # fmt: skip
