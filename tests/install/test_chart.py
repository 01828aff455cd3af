"""The Helm chart installs the objects of ``kubectl apply -k deploy``, and its values have effect."""

import base64
import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from quorate.api.configuration import DEFAULT_NAMESPACE, load_configuration
from quorate.api.crds import to_yaml
from quorate.install import scheduler
from quorate.install.controllers import CONFIGURATION_FILE
from quorate.install.crds import gang_definitions
from quorate.install.manifests import (
    IMAGE,
    dashboard_installation,
    gang_installation,
    installation,
    witness_installation,
)
from tests.e2e.commands import ROOT
from tests.install.helm import CHART, DEPLOY, PROGRAM, Json, Name, Refused, helm, named, needs_helm, rendered

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
CERT_MANAGER: Json = {
    "enableCertManager": True,
    "managerConfig": {
        "controllerManagerConfigYaml": VALUES["managerConfig"]["controllerManagerConfigYaml"]
        + "internalCertManagement:\n  enable: false\n"
    },
}


OF_HELM = {
    "app.kubernetes.io/instance": "quorate",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/version": IMAGE.partition(":")[2],
    "helm.sh/chart": IMAGE.replace(":", "-"),
}


def chart(namespace: str = DEFAULT_NAMESPACE, **values: Any) -> dict[Name, Json]:
    """Return the objects without the labels that Helm's conventions want, which manifests do not have."""
    objects = rendered(namespace, values)
    for key, each in objects.items():
        labels = each["metadata"].get("labels", {})
        assert {label: labels.pop(label, None) for label in OF_HELM} == OF_HELM, key
        if not labels:
            del each["metadata"]["labels"]
    return objects


def kustomized(files: dict[PurePosixPath, str]) -> dict[Name, Json]:
    """Return the objects of manifests without the namespace: Helm creates that of a release itself."""
    objects = named(
        *(
            text
            for name, text in files.items()
            if name.suffix == ".yaml" and name.parent.name != "optional" and name.stem != "kustomization"
        )
    )
    return {key: each for key, each in objects.items() if key[0] != "Namespace"}


def deployed() -> dict[Name, Json]:
    """Return the objects of ``kubectl apply -k deploy``."""
    files = dict(installation(DEFAULT_NAMESPACE, IMAGE))
    for path in (DEPLOY / "crds").glob("*.yaml"):
        files[PurePosixPath("crds", path.name)] = path.read_text()
    return kustomized(files)


def deployed_gang() -> dict[Name, Json]:
    """Return the objects of ``kubectl apply -k deploy/gang`` and those of ``deploy/crds/gang``."""
    files = dict(gang_installation(DEFAULT_NAMESPACE, IMAGE))
    for each in gang_definitions():
        files[PurePosixPath("crds", each["metadata"]["name"] + ".yaml")] = to_yaml(each)
    return kustomized(files)


def without_policy(objects: dict[Name, Json]) -> dict[Name, Json]:
    """Remove the annotation with which Helm keeps the definitions; kubectl has no such rule."""
    for (kind, _, _), each in objects.items():
        if kind == "CustomResourceDefinition":
            assert each["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    return objects


@needs_helm
def test_the_chart_and_the_manifests_install_the_same_objects() -> None:
    charted, manifests = without_policy(chart()), deployed()
    assert charted.keys() == manifests.keys()
    for key in manifests:
        assert charted[key] == manifests[key], key


@needs_helm
def test_with_the_gang_scheduler_they_install_the_same_objects_too() -> None:
    charted = without_policy(chart(gangScheduler={"enabled": True}))
    manifests = deployed() | deployed_gang()
    assert charted.keys() == manifests.keys()
    for key in manifests:
        assert charted[key] == manifests[key], key


@needs_helm
@pytest.mark.parametrize(
    ("component", "files"),
    [
        ("dashboard", dashboard_installation(DEFAULT_NAMESPACE, IMAGE)),
        ("witness", witness_installation(DEFAULT_NAMESPACE, IMAGE)),
    ],
)
def test_with_an_optional_component_they_install_the_same_objects_too(
    component: str, files: dict[PurePosixPath, str]
) -> None:
    charted = without_policy(chart(DEFAULT_NAMESPACE, **{component: {"enabled": True}}))
    manifests = deployed() | kustomized(dict(files))
    assert charted.keys() == manifests.keys()
    for key in manifests:
        assert charted[key] == manifests[key], key


@needs_helm
def test_the_values_of_the_dashboard_reach_its_pod() -> None:
    values = {
        "enabled": True, "tlsSecret": "page-tls", "historyClaim": "history",
        "extraArgs": ["--external-url", "https://quorate.example"],
        "service": {"type": "LoadBalancer", "port": 8443},
    }  # fmt: skip
    objects = chart(dashboard=values)
    name = (DEFAULT_NAMESPACE, "quorate-dashboard")
    pod = objects["Deployment", *name]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][-6:] == [
        "--tls-certificate", "/etc/quorate/tls/tls.crt", "--tls-key", "/etc/quorate/tls/tls.key",
        "--external-url", "https://quorate.example",
    ]  # fmt: skip
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["tls"]["secret"] == {"secretName": "page-tls"}
    assert volumes["history"]["persistentVolumeClaim"] == {"claimName": "history"}
    assert {each["name"] for each in container["volumeMounts"]} == volumes.keys()
    service = objects["Service", *name]["spec"]
    assert (service["type"], service["ports"][0]["port"]) == ("LoadBalancer", 8443)


# Each value that selects objects or a part of one, on and off.
COMBINATIONS: list[Json] = [
    {},
    {"gangScheduler": {"enabled": True, "provisioningClass": "nodes"}},
    {"enablePrometheus": True, "enableVisibilityAPF": True, "gangScheduler": {"enabled": True}},
    {"dashboard": {"enabled": True, "tlsSecret": "tls", "historyClaim": "claim", "extraArgs": ["--verbose"]}},
    CERT_MANAGER,
    {**CERT_MANAGER, "certManager": {"issuerRef": {"kind": "ClusterIssuer", "name": "ca"}}},
    {
        "crds": {"enabled": False}, "enableWebhooks": False, "networkPolicy": {"enabled": False},
        "enableVisibilityAuthReaderRoleBinding": False,
        "controllerManager": {"podDisruptionBudget": {"enabled": False}, "affinity": None},
    },
]  # fmt: skip


@needs_helm
@pytest.mark.parametrize("values", COMBINATIONS, ids=lambda values: " ".join(values) or "defaults")
def test_helm_finds_nothing_to_complain_about(values: Json) -> None:
    helm("lint", "--strict", str(CHART), values=values)


@needs_helm
@pytest.mark.parametrize(
    "version",
    ["v1.25.0", "v1.29.3-eks-adc7111", "v1.30.5-gke.1443001", "v1.36.2+k3s1", "v0.0.0-master+$Format:%H$"],
)
def test_a_version_of_a_vendor_and_an_unknown_one_are_accepted(version: str) -> None:
    assert rendered(DEFAULT_NAMESPACE, version=version)


@needs_helm
@pytest.mark.parametrize("version", ["v1.24.17", "v1.24.3+k3s1", "v1.22.0-gke.1"])
def test_a_version_without_validation_rules_is_refused(version: str) -> None:
    with pytest.raises(Refused, match=r"need 1\.25 or newer"):
        rendered(DEFAULT_NAMESPACE, version=version)


@needs_helm
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        pytest.param({"replicas": 3}, "additional properties 'replicas' not allowed", id="an unknown value"),
        pytest.param(
            {"controllerManager": {"manager": {"limits": {}}}}, "'limits' not allowed",
            id="an unknown value below others",
        ),
        pytest.param({"enableWebhooks": "yes"}, "got string, want boolean", id="another type"),
        pytest.param(
            {"controllerManager": {"replicas": -1}}, "minimum: got -1, want 0", id="a number out of range"
        ),
        pytest.param(
            {"controllerManager": {"featureGates": [{"name": "PartialAdmission"}]}}, "missing property",
            id="half a feature gate",
        ),
        pytest.param(
            {"controllerManager": {"manager": {"image": {"pullPolicy": "Sometimes"}}}},
            "must be one of", id="an unknown pull policy",
        ),
        pytest.param({"enableCertManager": True}, "contradicts internalCertManagement", id="cert-manager"),
        pytest.param(
            {"managerConfig": {"controllerManagerConfigYaml": "namespace: batch"}},
            "namespace: batch must not be set", id="a namespace in the Configuration",
        ),
        pytest.param(
            {"managerConfig": {"controllerManagerConfigYaml": "kind: ["}}, "is not YAML",
            id="a Configuration that is not YAML",
        ),
        pytest.param(
            {
                "managerConfig": {"controllerManagerConfigYaml": "featureGates: {PartialAdmission: true}"},
                "controllerManager": {"featureGates": [{"name": "PartialAdmission", "enabled": True}]},
            },
            "contradicts featureGates", id="feature gates in two places",
        ),
    ],
)  # fmt: skip
def test_values_that_mean_nothing_are_refused(values: Json, problem: str) -> None:
    with pytest.raises(Refused) as refused:
        rendered(DEFAULT_NAMESPACE, values)
    assert problem in str(refused.value)


def described(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield each value of a schema with its path."""
    yield path, schema
    for name, each in schema.get("properties", {}).items():
        yield from described(each, f"{path}.{name}")
    if "items" in schema:
        yield from described(schema["items"], f"{path}[]")


def test_the_schema_types_and_describes_every_value() -> None:
    for path, schema in described(SCHEMA):
        assert "type" in schema, path
        assert "description" in schema or path.endswith("[]"), path
        if "properties" in schema:
            assert schema["additionalProperties"] is False, path


def test_the_schema_has_the_values_of_the_chart() -> None:
    """Optional fields of a probe, and ``global``, which Helm sets, have no default."""

    def check(schema: Json, values: Json, path: str) -> None:
        known = schema["properties"].keys()
        assert values.keys() <= known, path
        if not path.endswith("Probe") and path:
            assert known == values.keys(), path
        for name, value in values.items():
            if "properties" in schema["properties"][name]:
                check(schema["properties"][name], value, f"{path}.{name}")

    check(SCHEMA, VALUES, "")
    assert SCHEMA["properties"].keys() - VALUES.keys() == {"global"}


@needs_helm
def test_another_namespace_is_set_everywhere() -> None:
    elsewhere = chart("batch", enablePrometheus=True, gangScheduler={"enabled": True}, **CERT_MANAGER)
    assert {namespace for _, namespace, _ in elsewhere} == {"", "batch", "kube-system", "kube-public"}
    subjects = [
        each["subjects"][0]["namespace"] for key, each in elsewhere.items() if key[0].endswith("Binding")
    ]
    assert {*subjects} == {"batch"}
    conversion = elsewhere["CustomResourceDefinition", "", "workloads.kueue.x-k8s.io"]["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["service"]["namespace"] == "batch"
    assert DEFAULT_NAMESPACE not in json.dumps([*elsewhere.values()])


def pod_of(objects: dict[Name, Json]) -> Json:
    spec: Json = objects["Deployment", DEFAULT_NAMESPACE, "quorate-controllers"]["spec"]["template"]["spec"]
    return spec


@needs_helm
@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        pytest.param({"enablePrometheus": True}, {"ServiceMonitor"}, id="enablePrometheus"),
        pytest.param({"enableAlerts": True}, {"PrometheusRule"}, id="enableAlerts"),
        pytest.param(CERT_MANAGER, {"Certificate", "Issuer"}, id="enableCertManager"),
        pytest.param(
            {"enableVisibilityAPF": True}, {"FlowSchema", "PriorityLevelConfiguration"},
            id="enableVisibilityAPF",
        ),
        pytest.param(
            {"crds": {"refuseDeletion": True}},
            {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, id="crds.refuseDeletion",
        ),
        pytest.param(
            {"nativeGangs": {"enabled": True}},
            {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}, id="nativeGangs.enabled",
        ),
        pytest.param(
            {**CERT_MANAGER, "certManager": {"issuerRef": {"name": "ca"}}},
            {"Certificate"}, id="certManager.issuerRef",
        ),
    ],
)  # fmt: skip
def test_optional_objects_are_rendered_on_request(values: Json, kinds: set[str]) -> None:
    before, after = {key[0] for key in chart()}, {key[0] for key in chart(**values)}
    assert after - before == kinds


@needs_helm
def test_labels_annotations_and_environment_reach_every_component() -> None:
    account, env = {"annotations": {"cloud": "role"}}, [{"name": "A", "value": "b"}]
    each: Json = {"serviceAccount": account, "extraEnv": env}
    others: Json = {name: {"enabled": True, **each} for name in ("gangScheduler", "dashboard", "witness")}
    objects = chart(
        commonLabels={"team": "batch"},
        controllerManager={"serviceAccount": account, "manager": {"extraEnv": env}},
        **others,
    )
    for (kind, _, _), body in objects.items():
        assert body["metadata"]["labels"]["team"] == "batch"
        if kind == "ServiceAccount":
            assert body["metadata"]["annotations"] == {"cloud": "role"}
        if kind == "Deployment":
            assert "team" not in body["spec"]["selector"]["matchLabels"]
            (container,) = body["spec"]["template"]["spec"]["containers"]
            assert container["env"] == env
    assert len([key for key in objects if key[0] == "Deployment"]) == 4


@needs_helm
def test_an_ingress_leads_to_the_dashboard() -> None:
    wanted = {"enabled": True, "host": "queues.example", "className": "nginx", "tlsSecret": "queues"}
    objects = chart(dashboard={"enabled": True, "ingress": wanted, "service": {"port": 8443}})
    spec = objects["Ingress", DEFAULT_NAMESPACE, "quorate-dashboard"]["spec"]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": ["queues.example"], "secretName": "queues"}]
    (rule,) = spec["rules"]
    (path,) = rule["http"]["paths"]
    assert rule["host"] == "queues.example"
    assert path["backend"]["service"] == {"name": "quorate-dashboard", "port": {"number": 8443}}
    with pytest.raises(Refused, match="host: is missing"):
        chart(dashboard={"enabled": True, "ingress": {"enabled": True}})


@needs_helm
def test_the_packaged_chart_has_a_readme_and_an_icon(tmp_path: Path) -> None:
    assert PROGRAM is not None
    command = [PROGRAM, "package", str(CHART), "--destination", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    archive = tmp_path / f"{IMAGE.replace(':', '-')}.tgz"
    with tarfile.open(archive) as packed:
        names = {*packed.getnames()}
    assert {"quorate/Chart.yaml", "quorate/README.md", "quorate/templates/_helpers.tpl"} <= names
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())
    drawn = base64.b64decode(metadata["icon"].removeprefix("data:image/svg+xml;base64,"))
    assert drawn.decode() == (ROOT / "dashboard/public/favicon.svg").read_text().strip()
    named = re.findall(r"`((?:\w+\.)+\w+)`", (CHART / "README.md").read_text())
    assert named
    for path in named:
        value: Any = VALUES
        for part in path.split("."):
            if path.endswith(("tgz", "yaml")):
                break
            value = value[part]


@needs_helm
def test_objects_can_be_disabled() -> None:
    objects = chart(
        crds={"enabled": False},
        networkPolicy={"enabled": False},
        controllerManager={"podDisruptionBudget": {"enabled": False}},
        enableWebhooks=False,
        enableVisibilityAuthReaderRoleBinding=False,
        gangScheduler={"enabled": True},
    )
    disabled = {
        "NetworkPolicy", "PodDisruptionBudget", "MutatingWebhookConfiguration", "CustomResourceDefinition",
    }  # fmt: skip
    assert not {key[0] for key in objects} & disabled
    assert "kube-system" not in {namespace for _, namespace, _ in objects}


@needs_helm
def test_the_values_reach_the_pod() -> None:
    image = {"repository": "registry.example/quorate", "tag": "main", "pullPolicy": "Always"}
    limits = {"limits": {"memory": "2Gi"}}
    manager = {"image": image, "resources": limits, "priorityClassName": "system-cluster-critical"}
    objects = chart(
        controllerManager={
            "replicas": 3,
            "strategy": {"type": "Recreate"},
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": "pull"}],
            "hostNetwork": True,
            "manager": manager,
        },
        **CERT_MANAGER,
    )
    deployment = objects["Deployment", DEFAULT_NAMESPACE, "quorate-controllers"]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
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


@needs_helm
def test_webhooks_and_conversions_are_annotated_for_cert_manager() -> None:
    for objects, want in ((chart(), None), (chart(**CERT_MANAGER), "kueue-system/kueue-serving-cert")):
        called = [
            each
            for key, each in objects.items()
            if key[0].endswith("WebhookConfiguration")
            or (key[0] == "CustomResourceDefinition" and each["spec"]["conversion"]["strategy"] == "Webhook")
        ]
        annotations = [each["metadata"].get("annotations", {}) for each in called]
        assert len(called) > 2
        assert {each.get("cert-manager.io/inject-ca-from") for each in annotations} == {want}


@needs_helm
def test_feature_gates_are_part_of_the_configuration() -> None:
    gates = [{"name": "PartialAdmission", "enabled": False}]
    objects = chart(controllerManager={"featureGates": gates})
    text = objects["ConfigMap", DEFAULT_NAMESPACE, "quorate-configuration"]["data"][CONFIGURATION_FILE]
    assert not load_configuration(text).configuration.gates.partial_admission


@needs_helm
def test_the_values_reach_the_scheduler() -> None:
    gang = {
        "enabled": True, "replicas": 3, "schedulerNames": ["volcano"], "provisioningClass": "nodes",
        "nodeSelector": {"pool": "system"}, "schedulerConfig": "actions: allocate\n",
    }  # fmt: skip
    objects = chart(gangScheduler=gang)
    deployment = objects["Deployment", DEFAULT_NAMESPACE, scheduler.ACCOUNT]
    pod = deployment["spec"]["template"]["spec"]
    args = pod["containers"][0]["args"]
    assert deployment["spec"]["replicas"] == 3
    assert args[args.index("--scheduler-name") + 1] == "volcano"
    assert args[args.index("--provisioning-class") + 1] == "nodes"
    assert pod["nodeSelector"] == {"pool": "system"}
    config_map = objects["ConfigMap", DEFAULT_NAMESPACE, scheduler.CONFIGURATION]
    assert config_map["data"]["volcano-scheduler.conf"].strip() == "actions: allocate"
    monitor = ("ServiceMonitor", DEFAULT_NAMESPACE, scheduler.ACCOUNT)
    assert monitor not in objects
    assert monitor in chart(enablePrometheus=True, gangScheduler={"enabled": True})
    assert monitor not in chart(enablePrometheus=True)
    optional = ("ClusterRole", "", "quorate-scheduler-demand")
    assert optional in objects
    assert optional not in chart(gangScheduler={**gang, "enabled": False})
