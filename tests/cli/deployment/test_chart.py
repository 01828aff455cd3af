"""The Helm chart installs what ``kubectl apply -k deploy`` installs, and its values do what they say.

The templates are rendered by ``templates.render``, which is not Helm: see there.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api.configuration import DEFAULT_NAMESPACE, load_configuration
from quorate.cli.deployment.controllers import CONFIGURATION_FILE
from quorate.cli.deployment.manifests import IMAGE, installation
from tests.cli.deployment.templates import NotKnown, render

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "quorate"
Json = dict[str, Any]
Name = tuple[str, str, str]


def merged(values: Json, changes: Json) -> Json:
    both = {**values}
    for key, value in changes.items():
        both[key] = merged(values[key], value) if isinstance(value, dict) and values.get(key) else value
    return both


def named(text: str) -> dict[Name, Json]:
    found = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in found
    }


def rendered(namespace: str = DEFAULT_NAMESPACE, **changes: Any) -> dict[Name, Json]:
    """What the chart installs with some values changed."""
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    objects: dict[Name, Json] = {}
    for template in sorted((CHART / "templates").iterdir()):
        objects |= named(render(template.read_text(), values, {"Namespace": namespace}))
    return objects


def plain() -> dict[Name, Json]:
    """What the manifests install, without what Helm does itself: the namespace."""
    objects: dict[Name, Json] = {}
    for name, text in installation(DEFAULT_NAMESPACE, IMAGE).items():
        if name.suffix == ".yaml" and name.parent.name != "optional" and name.stem != "kustomization":
            objects |= named(text)
    return {key: each for key, each in objects.items() if key[0] != "Namespace"}


def test_it_installs_what_the_manifests_install() -> None:
    mine, theirs = plain(), rendered()
    for key, service in mine.items():
        if key[0] == "Service":
            service["spec"]["type"] = "ClusterIP"  # the default, which the chart writes out
    (container,) = pod_of(mine)["containers"]
    container["imagePullPolicy"] = "IfNotPresent"  # likewise
    configuration = "ConfigMap", DEFAULT_NAMESPACE, "quorate-configuration"
    texts = [each.pop(configuration)["data"][CONFIGURATION_FILE] for each in (mine, theirs)]
    assert yaml.safe_load(texts[0]) == yaml.safe_load(texts[1])
    assert theirs.keys() == mine.keys()
    for key in mine:
        assert theirs[key] == mine[key], key


def test_the_definitions_come_with_it() -> None:
    shipped = {path.name for path in (CHART.parents[1] / "crds").iterdir()}
    assert {path.name for path in (CHART / "crds").iterdir()} == shipped


def test_another_namespace_is_written_everywhere() -> None:
    elsewhere = rendered(namespace="batch", enableCertManager=True, enablePrometheus=True)
    assert {namespace for _, namespace, _ in elsewhere} == {"", "batch", "kube-system"}
    subjects = [
        each["subjects"][0]["namespace"] for key, each in elsewhere.items() if key[0].endswith("Binding")
    ]
    assert {*subjects} == {"batch"}


def pod_of(objects: dict[Name, Json]) -> Json:
    spec: Json = objects["Deployment", DEFAULT_NAMESPACE, "quorate-controllers"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        pytest.param({"enablePrometheus": True}, {"ServiceMonitor"}, id="enablePrometheus"),
        pytest.param({"enableCertManager": True}, {"Certificate", "Issuer"}, id="enableCertManager"),
        pytest.param(
            {"enableVisibilityAPF": True}, {"FlowSchema", "PriorityLevelConfiguration"},
            id="enableVisibilityAPF",
        ),
        pytest.param(
            {"enableCertManager": True, "certManager": {"issuerRef": {"name": "ca"}}},
            {"Certificate"}, id="certManager.issuerRef",
        ),
    ],
)  # fmt: skip
def test_what_is_optional_comes_when_it_is_asked_for(changes: Json, kinds: set[str]) -> None:
    before, after = {key[0] for key in rendered()}, {key[0] for key in rendered(**changes)}
    assert after - before == kinds


def test_what_can_be_left_out_is() -> None:
    kinds = {
        key[0]
        for key in rendered(
            networkPolicy={"enabled": False},
            controllerManager={"podDisruptionBudget": {"enabled": False}},
            enableWebhooks=False,
        )
    }
    assert not {"NetworkPolicy", "PodDisruptionBudget", "MutatingWebhookConfiguration"} & kinds
    without = rendered(enableVisibilityAuthReaderRoleBinding=False)
    assert "kube-system" not in {namespace for _, namespace, _ in without}


def test_the_values_reach_the_pod() -> None:
    image = {"repository": "registry.example/quorate", "tag": "main", "pullPolicy": "Always"}
    limits = {"limits": {"memory": "2Gi"}}
    manager = {"image": image, "resources": limits, "priorityClassName": "system-cluster-critical"}
    objects = rendered(
        controllerManager={
            "replicas": 3,
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": "pull"}],
            "hostNetwork": True,
            "manager": manager,
        },
        enableCertManager=True,
    )
    assert objects["Deployment", DEFAULT_NAMESPACE, "quorate-controllers"]["spec"]["replicas"] == 3
    pod = pod_of(objects)
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/quorate:main"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["limits"]["memory"] == "2Gi"
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirst")
    assert {each["name"] for each in pod["volumes"]} == {"configuration", "tmp", "certificate"}
    assert {each["name"] for each in container["volumeMounts"]} == {"configuration", "tmp", "certificate"}


def test_cert_manager_is_asked_to_have_its_certificate_trusted() -> None:
    for objects, want in (
        (rendered(), None),
        (rendered(enableCertManager=True), "kueue-system/kueue-serving-cert"),
    ):
        hooks = [each for key, each in objects.items() if key[0].endswith("WebhookConfiguration")]
        annotations = [each["metadata"].get("annotations", {}) for each in hooks]
        assert [each.get("cert-manager.io/inject-ca-from") for each in annotations] == [want, want]


def test_gates_become_part_of_the_configuration() -> None:
    gates = [{"name": "PartialAdmission", "enabled": False}]
    objects = rendered(controllerManager={"featureGates": gates})
    text = objects["ConfigMap", DEFAULT_NAMESPACE, "quorate-configuration"]["data"][CONFIGURATION_FILE]
    assert not load_configuration(text).configuration.gates.partial_admission


@pytest.mark.parametrize(
    "template", ['{{ include "a" . }}', "{{ .Values.a | quote }}", "{{- if .Values.a }}"]
)
def test_what_the_reading_does_not_know_is_refused(template: str) -> None:
    with pytest.raises(NotKnown):
        render(template, {"a": 1}, {})
