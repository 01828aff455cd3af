"""``deploy/witness`` installs the witness beside the controllers, with their Configuration."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.install import controllers
from quorate.install.manifests import IMAGE, witness_installation
from tests.cli.conftest import Quorate
from tests.install.test_manifests import DEPLOY, objects

Json = dict[str, Any]
FILES = witness_installation(DEFAULT_NAMESPACE, IMAGE)


def installed(kind: str) -> Iterator[Json]:
    for text in FILES.values():
        yield from (each for each in objects(text) if each["kind"] == kind)


@pytest.mark.parametrize("name", FILES, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == FILES[name], again


def test_the_roles_allow_reading_and_events_only() -> None:
    (role,) = installed("ClusterRole")
    assert not list(installed("Role"))
    changing = {
        (verb, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in ("get", "list", "watch")
    }
    assert changing == {
        ("create", "events"), ("patch", "events"), ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
    }  # fmt: skip


def test_the_pod_is_restricted_and_has_the_configuration_of_the_controllers(quorate: Quorate) -> None:
    (deployment,), (service,), (policy,) = map(installed, ("Deployment", "Service", "NetworkPolicy"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    mounted = {each["name"]: each for each in pod["volumes"]}["configuration"]["configMap"]["name"]
    assert mounted == controllers.configuration(DEFAULT_NAMESPACE)["metadata"]["name"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert quorate(*container["args"], "--help").code == 0
