"""``deploy/multikueue-worker`` gives a MultiKueue manager the least role in a worker cluster."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.install.manifests import multikueue_worker_installation
from tests.cli.conftest import Quorate
from tests.install.test_manifests import DEPLOY, objects

Json = dict[str, Any]
FILES = multikueue_worker_installation(DEFAULT_NAMESPACE)
INSTALLED = [each for text in FILES.values() for each in objects(text)]


def one(kind: str) -> Json:
    (found,) = (each for each in INSTALLED if each["kind"] == kind)
    return found


@pytest.mark.parametrize("name", FILES, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == FILES[name], again


def test_the_account_has_a_token_and_one_role() -> None:
    name = one("ServiceAccount")["metadata"]["name"]
    assert one("Secret")["metadata"]["annotations"] == {"kubernetes.io/service-account.name": name}
    (subject,) = one("ClusterRoleBinding")["subjects"]
    assert (subject["name"], subject["namespace"]) == (name, DEFAULT_NAMESPACE)


def test_the_role_changes_jobs_and_workloads_only() -> None:
    allowed = {
        resource: set(rule["verbs"]) for rule in one("ClusterRole")["rules"] for resource in rule["resources"]
    }
    assert "*" not in {verb for verbs in allowed.values() for verb in verbs}
    assert not {"secrets", "configmaps", "serviceaccounts"} & set(allowed)
    for read in ("clusterqueues", "localqueues", "nodes", "namespaces"):
        assert allowed[read] <= {"get", "list", "watch"}
    assert allowed["workloads/status"] == {"patch"}


def test_only_what_a_worker_needs_is_written(quorate: Quorate, tmp_path: Path) -> None:
    result = quorate("manifests", "--output", str(tmp_path), "--multikueue-worker", "--namespace", "batch")
    assert result.code == 0
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {Path(name) for name in FILES}
    assert "namespace: batch" in (tmp_path / "multikueue-worker/manager-account.yaml").read_text()
