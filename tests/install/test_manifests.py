"""``deploy/`` is generated, kubectl can read it, and its objects fit together."""

import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from quorate.api.configuration import DEFAULT_NAMESPACE, load_configuration
from quorate.api.explanation import EXPLAINED
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.install.controller_rules import CONTROLLER_RULES, JOBS, PolicyRule, declared_kind_rules
from quorate.install.controllers import CONFIGURATION_FILE
from quorate.install.manifests import (
    IMAGE,
    chart,
    dashboard_installation,
    gang_installation,
    installation,
    monitoring_files,
    multikueue_worker_installation,
    witness_installation,
)
from quorate.install.roles import ACCOUNT, gang_roles, user_roles
from quorate.install.scheduler import NAMESPACE
from tests.cli.conftest import Quorate

DEPLOY = Path(__file__).parents[2] / "deploy"
Json = dict[str, Any]


def objects(text: str) -> list[Json]:
    return [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]


INSTALLATION = installation(DEFAULT_NAMESPACE, IMAGE)
GENERATED = {**INSTALLATION, **chart()}


def installed(kind: str) -> Iterator[Json]:
    for name, text in INSTALLATION.items():
        if name.suffix == ".yaml":
            yield from (each for each in objects(text) if each["kind"] == kind)


@pytest.mark.parametrize("name", GENERATED, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == GENERATED[name], again


def test_deploy_has_no_other_files() -> None:
    gang = gang_installation(NAMESPACE, IMAGE)
    dashboard = dashboard_installation(DEFAULT_NAMESPACE, IMAGE)
    witness = witness_installation(DEFAULT_NAMESPACE, IMAGE)
    monitoring = monitoring_files(DEFAULT_NAMESPACE)
    worker = multikueue_worker_installation(DEFAULT_NAMESPACE)
    written = {str(name) for name in (*GENERATED, *gang, *dashboard, *witness, *monitoring, *worker)}
    by_hand = {
        "Dockerfile", "helm/quorate/Chart.yaml", "helm/quorate/values.yaml",
        "helm/quorate/values.schema.json", "helm/quorate/templates/NOTES.txt",
        "helm/quorate/templates/configuration.yaml",
        "helm/quorate/templates/controllers.yaml", "helm/quorate/templates/services.yaml",
        "helm/quorate/templates/cert-manager.yaml", "helm/quorate/templates/dashboard.yaml",
        "helm/quorate/templates/witness.yaml",
        "helm/quorate/templates/scheduler.yaml", "helm/quorate/templates/_helpers.tpl",
        "helm/quorate/templates/dashboard-ingress.yaml", "helm/quorate/README.md", "requirements.txt",
        "helm/quorate/.helmignore",
    }  # fmt: skip
    found = {
        str(path.relative_to(DEPLOY))
        for path in DEPLOY.rglob("*")
        if path.is_file() and "crds" not in path.parts
    }
    assert found == written | by_hand


def test_kubectl_renders_the_kustomization() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    kinds = [each["kind"] for each in objects(done.stdout)]
    assert kinds.count("CustomResourceDefinition") == 12
    assert {
        "Namespace",
        "Deployment",
        "Service",
        "ClusterRole",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "APIService",
    } <= {*kinds}


def test_the_shipped_configuration_is_valid() -> None:
    (config_map,) = installed("ConfigMap")
    loaded = load_configuration(config_map["data"][CONFIGURATION_FILE])
    assert loaded.warnings == ()
    assert loaded.configuration.leader_election.elect
    assert loaded.configuration.namespace == DEFAULT_NAMESPACE


def test_the_pod_meets_the_restricted_standard() -> None:
    (deployment,) = installed("Deployment")
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 2
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    labels = spec["template"]["metadata"]["labels"]
    for other in (*installed("Service"), *installed("PodDisruptionBudget"), *installed("NetworkPolicy")):
        selector = other["spec"].get("selector") or other["spec"]["podSelector"]
        assert selector.get("matchLabels", selector).items() <= labels.items(), other["metadata"]["name"]
    ports = {each["name"] for each in container["ports"]}
    for service in installed("Service"):
        assert all(port["targetPort"] in ports for port in service["spec"]["ports"])
    assert container["image"] == IMAGE


def test_the_arguments_of_the_container_are_valid(quorate: Quorate) -> None:
    (deployment,) = installed("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert quorate(*container["args"], "--help").code == 0


def test_another_namespace_and_image_are_set_everywhere(quorate: Quorate, tmp_path: Path) -> None:
    options = ("--output", str(tmp_path), "--namespace", "batch", "--image", "registry.example/q:1")
    assert quorate("manifests", *options).code == 0
    written = "".join(path.read_text() for path in tmp_path.rglob("*.yaml"))
    assert DEFAULT_NAMESPACE not in written
    assert "image: registry.example/q:1" in written
    assert len(list((tmp_path / "crds").glob("*.yaml"))) == 12


def test_the_bindings_connect_the_account_to_the_roles() -> None:
    (deployment,) = installed("Deployment")
    (account,) = installed("ServiceAccount")
    assert (
        deployment["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"] == ACCOUNT
    )
    roles = {
        (each["kind"], each["metadata"]["name"])
        for kind in ("Role", "ClusterRole")
        for each in installed(kind)
    }
    own = [*installed("ClusterRoleBinding"), *installed("RoleBinding")]
    own = [each for each in own if each["metadata"]["name"] == ACCOUNT]
    assert len(own) == 2
    for binding in own:
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": DEFAULT_NAMESPACE}
        ]


def test_no_rule_is_wider_than_necessary() -> None:
    for rule in CONTROLLER_RULES:
        assert "*" not in (rule.group, *rule.resources, *rule.verbs)
        assert not {"escalate", "bind", "impersonate", "deletecollection"} & {*rule.verbs}
        # Keys for the pods of a job are created and deleted unread.
        if "secrets" in rule.resources and not {*rule.verbs} <= {"create", "delete"}:
            assert rule.namespace, "only secrets of the own namespace are read"


def test_jobs_can_be_deleted_but_serving_workloads_cannot() -> None:
    deleted = {resource for rule in CONTROLLER_RULES for verb, resource in rule if verb == "delete"}
    assert {"jobs", "jobsets", "trainjobs", "rayclusters", "pods", "workloads"} <= deleted
    assert not {"deployments", "statefulsets", "leaderworkersets"} & deleted


def test_a_declared_kind_has_its_own_rules() -> None:
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  declaredFrameworks:
  - {apiVersion: example.com/v1, kind: Training, plural: trainings, suspend: spec.paused,
     podSets: [{name: main, template: spec.template}], ready: {condition: Ready}}
"""
    rules = declared_kind_rules(load_configuration(text).configuration.integrations)
    assert {(rule.group, verb, resource) for rule in rules for verb, resource in rule} == {
        *(("example.com", verb, "trainings") for verb in ("get", "list", "watch", "patch", "delete")),
        ("example.com", "update", "trainings/finalizers"),
        ("example.com", "patch", "trainings/status"),
    }


def test_no_rule_is_repeated() -> None:
    given = [(rule.group, rule.namespace, *each) for rule in CONTROLLER_RULES for each in rule]
    assert sorted({each for each in given if given.count(each) > 1}) == []


def test_user_roles_are_those_of_kueue() -> None:
    roles = {each["metadata"]["name"]: each for each in user_roles()}
    assert roles["kueue-batch-admin-role"]["aggregationRule"] == {
        "clusterRoleSelectors": [{"matchLabels": {"rbac.kueue.x-k8s.io/batch-admin": "true"}}]
    }

    def aggregated_to(role: str) -> set[str]:
        labels = roles[role]["metadata"]["labels"]
        return {label.rpartition("/")[2] for label, value in labels.items() if value == "true"}

    assert aggregated_to("kueue-clusterqueue-editor-role") == {"batch-admin"}
    assert aggregated_to("kueue-job-editor-role") == {"batch-admin", "batch-user"}
    assert aggregated_to("kueue-clusterqueue-viewer-role") == {"batch-admin", "aggregate-to-admin"}
    all_users = {"batch-admin", "batch-user", "aggregate-to-view", "aggregate-to-edit", "aggregate-to-admin"}
    assert aggregated_to("kueue-workload-viewer-role") == aggregated_to("kueue-job-viewer-role") == all_users
    assert aggregated_to("kueue-raycluster-viewer-role") == all_users - {"batch-user"}
    assert aggregated_to("kueue-pending-workloads-lq-viewer-role") == all_users
    for kind in (
        "admissioncheck", "multikueuecluster", "multikueueconfig", "provisioningrequestconfig",
        "workloadpriorityclass",
    ):  # fmt: skip
        assert aggregated_to(f"kueue-{kind}-editor-role") == {"batch-admin"}
        assert aggregated_to(f"kueue-{kind}-viewer-role") == {"batch-admin"}
    assert {"kueue-appwrapper-editor-role", "kueue-appwrapper-viewer-role"} <= roles.keys()


def test_aggregated_roles_leave_their_rules_to_the_controller_that_owns_them() -> None:
    aggregated = [role for role in installed("ClusterRole") if "aggregationRule" in role]
    assert [role["metadata"]["name"] for role in aggregated] == [
        "kueue-batch-admin-role",
        "kueue-batch-user-role",
    ]
    assert not any("rules" in role for role in aggregated)


def test_readers_of_an_object_may_read_its_explanation() -> None:
    granted: dict[str, set[str]] = {}  # by kind of object: the explanations that each of its readers may get
    for role in (*user_roles(), *gang_roles()):
        rules = role.get("rules", ())  # aggregated roles have none of their own
        resources = {each for rule in rules for each in rule.get("resources", ())}
        explained = {each.partition("/")[0] for each in resources if each.endswith("/explanation")}
        for plural, _, group in EXPLAINED:
            reads = any(
                plural in rule.get("resources", ()) and group in rule["apiGroups"] and "get" in rule["verbs"]
                for rule in rules
            )
            if (
                reads and role["metadata"]["name"] != "quorate-gang-editor-role"
            ):  # bound beside the viewer role
                granted[plural] = granted.get(plural, explained) & explained
    assert granted == {
        "clusterqueues": {"clusterqueues"}, "localqueues": {"localqueues"},
        "workloads": {"workloads", "jobs"}, "podgroups": {"podgroups"},
    }  # fmt: skip


def test_every_kind_that_the_controllers_queue_is_listed() -> None:
    assert {kind.resource for kind in FRAMEWORK_KINDS.values()} <= set(JOBS)


def test_no_kind_of_job_is_repeated() -> None:
    assert len({(job.group, job.plural) for job in JOBS}) == len(JOBS)


def test_a_rule_yields_each_verb_with_each_resource() -> None:
    assert list(PolicyRule("", "g", ("a", "b/status"), ("get", "list"))) == [
        ("get", "a"), ("list", "a"), ("get", "b/status"), ("list", "b/status")
    ]  # fmt: skip


def test_the_image_runs_without_root_and_with_pinned_versions() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert sum(line.startswith("FROM ") for line in lines) == 2
    assert "USER 65532:65532" in lines
    assert any("--require-hashes" in line for line in lines)
    root = DEPLOY.parent
    copied = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
        if word != "dist/*.whl"  # which `make wheel` builds
    ]
    assert [name for name in copied if not (root / name).exists()] == []
