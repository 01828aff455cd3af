"""``deploy/dashboard`` installs the dashboard separately from the controllers."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from quorate.api.configuration import DEFAULT_NAMESPACE
from quorate.install.dashboard import DASHBOARD_RULES
from quorate.install.manifests import IMAGE, dashboard_installation
from tests.cli.conftest import Quorate
from tests.install.test_manifests import DEPLOY, objects

Json = dict[str, Any]
FILES = dashboard_installation(DEFAULT_NAMESPACE, IMAGE)


def installed(kind: str) -> Iterator[Json]:
    for text in FILES.values():
        yield from (each for each in objects(text) if each["kind"] == kind)


@pytest.mark.parametrize("name", FILES, ids=str)
def test_the_files_are_what_the_generator_writes(name: PurePosixPath) -> None:
    again = "run: python -m quorate manifests --output deploy --with-chart"
    assert (DEPLOY / name).read_text(encoding="utf-8") == FILES[name], again


def test_the_roles_allow_reading_and_asking_for_access_only() -> None:
    verbs = {
        (verb, resource)
        for kind in ("ClusterRole", "Role")
        for role in installed(kind)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    changing = {(verb, resource) for verb, resource in verbs if verb not in ("get", "list", "watch")}
    assert changing == {("create", "subjectaccessreviews")}
    assert ("get", "configmaps") in verbs
    assert not {resource for _, resource in verbs} & {"secrets", "serviceaccounts", "serviceaccounts/token"}
    names = {name for role in installed("Role") for name in role["rules"][0]["resourceNames"]}
    assert names == {"quorate-configuration-in-force", "quorate-configuration", "kueue-manager-config"}
    assert {verb for rule in DASHBOARD_RULES for verb, _ in rule} == {"get", "list", "watch", "create"}


def test_the_pod_is_restricted_and_its_ports_are_served() -> None:
    (deployment,), (service,), (policy,) = map(installed, ("Deployment", "Service", "NetworkPolicy"))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"dashboard": 8443, "health": 8081}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "dashboard")


def test_the_arguments_of_the_container_are_valid(quorate: Quorate) -> None:
    (deployment,) = installed("Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert quorate(*container["args"], "--help").code == 0
