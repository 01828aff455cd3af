"""The Helm chart installs the objects of ``kubectl apply -k deploy``, and its values have effect.

``templates.render`` renders the templates; it supports a subset of Helm.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api.configuration import DEFAULT_NAMESPACE, load_configuration
from quorate.cli.deployment.controllers import CONFIGURATION_FILE
from quorate.cli.deployment.manifests import IMAGE, installation
from tests.cli.deployment.templates import UnsupportedTemplate, render

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
    """Return the objects of the chart with changed values."""
    values = merged(yaml.safe_load((CHART / "values.yaml").read_text()), changes)
    objects: dict[Name, Json] = {}
    for template in sorted((CHART / "templates").iterdir()):
        objects |= named(render(template.read_text(), values, {"Namespace": namespace}))
    return objects


def plain() -> dict[Name, Json]:
    """Return the objects of the manifests without the namespace, which Helm creates."""
    objects: dict[Name, Json] = {}
    for name, text in installation(DEFAULT_NAMESPACE, IMAGE).items():
        if name.suffix == ".yaml" and name.parent.name != "optional" and name.stem != "kustomization":
            objects |= named(text)
    return {key: each for key, each in objects.items() if key[0] != "Namespace"}


def test_the_chart_and_the_manifests_install_the_same_objects() -> None:
    manifests, charted = plain(), rendered()
    for key, service in manifests.items():
        if key[0] == "Service":
            service["spec"]["type"] = "ClusterIP"  # the default, which the chart sets
    (container,) = pod_of(manifests)["containers"]
    container["imagePullPolicy"] = "IfNotPresent"  # likewise
    configuration = "ConfigMap", DEFAULT_NAMESPACE, "quorate-configuration"
    texts = [each.pop(configuration)["data"][CONFIGURATION_FILE] for each in (manifests, charted)]
    assert yaml.safe_load(texts[0]) == yaml.safe_load(texts[1])
    assert charted.keys() == manifests.keys()
    for key in manifests:
        assert charted[key] == manifests[key], key


def test_the_chart_includes_the_definitions() -> None:
    shipped = {path.name for path in (CHART.parents[1] / "crds").iterdir()}
    assert {path.name for path in (CHART / "crds").iterdir()} == shipped


def test_another_namespace_is_set_everywhere() -> None:
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
def test_optional_objects_are_rendered_on_request(changes: Json, kinds: set[str]) -> None:
    before, after = {key[0] for key in rendered()}, {key[0] for key in rendered(**changes)}
    assert after - before == kinds


def test_objects_can_be_disabled() -> None:
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


def test_webhooks_are_annotated_for_cert_manager() -> None:
    for objects, want in (
        (rendered(), None),
        (rendered(enableCertManager=True), "kueue-system/kueue-serving-cert"),
    ):
        hooks = [each for key, each in objects.items() if key[0].endswith("WebhookConfiguration")]
        annotations = [each["metadata"].get("annotations", {}) for each in hooks]
        assert [each.get("cert-manager.io/inject-ca-from") for each in annotations] == [want, want]


def test_feature_gates_are_part_of_the_configuration() -> None:
    gates = [{"name": "PartialAdmission", "enabled": False}]
    objects = rendered(controllerManager={"featureGates": gates})
    text = objects["ConfigMap", DEFAULT_NAMESPACE, "quorate-configuration"]["data"][CONFIGURATION_FILE]
    assert not load_configuration(text).configuration.gates.partial_admission


@pytest.mark.parametrize(
    "template", ['{{ include "a" . }}', "{{ .Values.a | quote }}", "{{- if .Values.a }}"]
)
def test_unsupported_templates_are_refused(template: str) -> None:
    with pytest.raises(UnsupportedTemplate):
        render(template, {"a": 1}, {})
