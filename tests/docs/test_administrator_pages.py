"""What the pages for administrators state about rights, sizes, versions, alerts and OpenShift."""

import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.limits import load

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.install import monitoring
from quorate.install.controller_rules import CONTROLLER_RULES, OWN, PolicyRule
from quorate.install.dashboard import DASHBOARD_RULES
from quorate.install.manifests import monitoring_files
from quorate.install.preflight.cluster_checks import _MATCH_CONDITIONS
from quorate.install.roles import user_roles
from quorate.install.scheduler import SCHEDULER_RULES
from quorate.install.witness import WITNESS_RULES
from tests.docs.walk import File
from tests.e2e.commands import ROOT, needs_kubectl
from tests.newcomer.pages import blocks_of

DOCS = ROOT / "docs"
READS = {"get", "list", "watch"}
ALL = (CONTROLLER_RULES, SCHEDULER_RULES, DASHBOARD_RULES, WITNESS_RULES)
REVIEWS = {"subjectaccessreviews", "tokenreviews"}
Json = dict[str, Any]


def writes(rules: Iterable[PolicyRule]) -> set[str]:
    return {name for rule in rules for verb, name in rule if verb not in READS}


def test_only_the_controllers_read_secrets_and_only_in_their_own_namespace() -> None:
    readers = [
        (rule.namespace, rule.verbs)
        for rules in ALL
        for rule in rules
        if "secrets" in rule.resources and not READS.isdisjoint(rule.verbs)
    ]
    assert readers == [(OWN, ("get", "watch"))]


def test_no_process_writes_what_the_security_model_rules_out() -> None:
    assert all(writes(rules).isdisjoint({"nodes", "namespaces", "roles", "rolebindings"}) for rules in ALL)
    assert not any("*" in (*rule.resources, *rule.verbs) for rules in ALL for rule in rules)
    assert ("create", "pods") not in {pair for rule in SCHEDULER_RULES for pair in rule}
    assert writes(WITNESS_RULES) - REVIEWS == {"events"}
    assert writes(DASHBOARD_RULES) - REVIEWS == set()


def aggregated(role: str) -> Iterator[Json]:
    """Yield the rules of a role for users, with those that it aggregates."""
    label = f"rbac.kueue.x-k8s.io/{role}"
    for body in user_roles():
        if body["metadata"]["labels"].get(label) == "true":
            yield from body["rules"]


def test_users_of_a_namespace_create_jobs_and_write_no_queue_pod_or_workload() -> None:
    written = {
        resource
        for rule in aggregated("batch-user")
        if not {"create", "patch", "update"}.isdisjoint(rule["verbs"])
        for resource in rule["resources"]
    }
    assert "jobs" in written
    assert written.isdisjoint({"pods", "workloads", "workloads/status", "clusterqueues", "localqueues"})


def test_roles_of_administrators_do_not_write_the_status_of_workloads() -> None:
    for role in ("batch-admin", "batch-user"):
        rules = [rule for rule in aggregated(role) if "workloads/status" in rule["resources"]]
        assert all({*rule["verbs"]} <= READS for rule in rules)


@pytest.mark.parametrize(("row", "process"), [(2, "controllers"), (3, "scheduler"), (4, "estimates")])
def test_sizes_are_those_that_were_measured(row: int, process: str) -> None:
    measures = load().measures

    def median(name: str) -> float:
        return measures[f"scale: {process}: {name}"].runs.median

    page = (DOCS / "reference" / "sizing.md").read_text()
    line = [line for line in page.splitlines() if line.startswith("|")][row]
    shown = [float(number) for cell in line.split("|")[2:] for number in re.findall(r"([\d.]+) MB", cell)]
    want = [
        median("bytes a node") / 1e3, median("bytes a pod") / 1e2, median("bytes a pending workload") / 1e2,
        median("memory, MB"), median("peak memory, MB"),
    ]  # fmt: skip
    assert shown == [pytest.approx(number, rel=0.2 if number < 5 else 0.05) for number in want]


def test_versions_are_those_of_the_package_and_of_preflight() -> None:
    page = (DOCS / "reference" / "supported-versions.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"| Python | {project['requires-python'].removeprefix('>=')} and newer |" in page
    assert f"| Kubernetes | {'.'.join(map(str, _MATCH_CONDITIONS))} and newer;" in page


def test_the_page_of_monitoring_lists_alerts_and_dashboards() -> None:
    page = (DOCS / "tasks" / "monitor.md").read_text()
    groups = monitoring.alerts(DEFAULT_NAMESPACE)["spec"]["groups"]
    assert re.findall(r"^\| `(Quorate\w+)`", page, re.MULTILINE) == [
        rule["alert"] for group in groups for rule in group["rules"]
    ]
    files = [name.name for name in monitoring_files(DEFAULT_NAMESPACE) if name.suffix == ".json"]
    assert sorted(re.findall(r"^\| `(quorate-\w+\.json)`", page, re.MULTILINE)) == sorted(files)


@needs_kubectl(21)
def test_with_the_overlay_of_the_page_openshift_chooses_users_and_groups(tmp_path: Path) -> None:
    page = (DOCS / "tasks" / "openshift-and-air-gapped.md").read_text()
    (overlay,) = (block for block in blocks_of(page) if isinstance(block, File))
    (tmp_path / "openshift").mkdir()
    (tmp_path / overlay.name).write_text(overlay.text)
    (tmp_path / "install").symlink_to(ROOT / "deploy")
    done = subprocess.run(
        ["kubectl", "kustomize", "--load-restrictor", "LoadRestrictionsNone", "openshift"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    texts = [done.stdout, *((ROOT / "deploy" / name).read_text() for name in (
        "controllers.yaml", "gang/scheduler.yaml", "witness/witness.yaml"
    ))]  # fmt: skip
    for text in texts:
        (pod,) = (
            body["spec"]["template"]["spec"]
            for body in yaml.safe_load_all(text)
            if body["kind"] == "Deployment"
        )
        assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["allowPrivilegeEscalation"] is False
            assert "runAsUser" not in context
