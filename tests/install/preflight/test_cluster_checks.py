"""Findings about a cluster: its version, definitions, webhooks, controllers and permissions."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key, at_epoch
from quorate.controllers.native_groups import Missing, NativeGangs
from quorate.install.preflight.cluster_checks import (
    access_findings,
    conversion_findings,
    definition_findings,
    enabled_gates,
    manager_findings,
    native_group_findings,
    unserved_findings,
    version_findings,
    webhook_findings,
)
from quorate.install.preflight.findings import PreflightFinding, Severity, by_severity, error, info, warning
from quorate.install.preflight.installation_objects import (
    Definition,
    Deployment,
    EndpointSlice,
    HeldLease,
    WebhookConfiguration,
)
from quorate.install.server_version import ServerVersion
from quorate.kube.resources import NATIVE_POD_GROUPS

NOW = 1_000_000.0
SERVICE = Key("kueue-system", "kueue-webhook-service")
READY = {SERVICE: 1}
GATES_ON = "info native gangs: feature gates of the API server that are on"
EMPTY = {SERVICE: 0}


def gate_metrics(*enabled: str) -> str:
    """Return what a kube-apiserver says of two gates that are off, and of those that are ``enabled``."""
    values = {"GangScheduling": 0, "ContextualLogging": 0, **dict.fromkeys(enabled, 1)}
    return "".join(
        f'kubernetes_feature_enabled{{name="{name}",stage="ALPHA"}} {value}\n'
        for name, value in values.items()
    )


def lines(findings: Iterable[PreflightFinding]) -> list[str]:
    return [f"{finding.severity} {finding.about}: {finding.says}" for finding in findings]


def served(git_version: str, major: str = "", minor: str = "", **emulation: str) -> ServerVersion:
    return ServerVersion(git_version=git_version, major=major, minor=minor, **emulation)


UNSTAMPED = "v0.0.0-master+$Format:%H$"


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param(served("v1.36.0", "1", "36"), "info server: Kubernetes v1.36.0", id="a release"),
        pytest.param(
            served("v1.30.5-gke.1443001", "1", "30"),
            "info server: Kubernetes v1.30.5-gke.1443001 does not support field selectors", id="GKE",
        ),
        pytest.param(
            served("v1.29.3-eks-adc7111", "1", "29+"),
            "info server: Kubernetes v1.29.3-eks-adc7111 does not support field selectors", id="EKS",
        ),
        pytest.param(
            served("v1.36.2+k3s1", "1", "36"), "info server: Kubernetes v1.36.2+k3s1", id="k3s",
        ),
        pytest.param(
            served("v1.27.10+28ed2d7", "1", "27"),
            "warning server: Kubernetes v1.27.10+28ed2d7 does not support matchConditions", id="OpenShift",
        ),
        pytest.param(
            served("v1.32.0-alpha.3.45+2bd8c2d1f5", "1", "32+"),
            "info server: Kubernetes v1.32.0-alpha.3.45+2bd8c2d1f5", id="between two releases",
        ),
        pytest.param(
            served(UNSTAMPED, "1", "36"), f"info server: Kubernetes v1.36 ({UNSTAMPED})",
            id="a build without a stamp",
        ),
        pytest.param(
            served("v1.36.2", "1", "36", emulation_major="1", emulation_minor="27"),
            "warning server: Kubernetes v1.27 (v1.36.2) does not support matchConditions",
            id="an older version is emulated",
        ),
        pytest.param(
            served("v1.24.0"), "error server: Kubernetes v1.24.0 does not support validation rules",
            id="too old",
        ),
        pytest.param(
            served("", "1", "24+"),
            "error server: Kubernetes v1.24 (no gitVersion) does not support validation rules",
            id="too old by its numbers",
        ),
        pytest.param(
            served(UNSTAMPED), f"warning server: its version {UNSTAMPED!r} does not tell",
            id="neither numbers nor a stamp",
        ),
        pytest.param(
            served("v0.0.0-master", "0", "0"), "warning server: its version 'v0.0.0-master' does not tell",
            id="zero",
        ),
        pytest.param(served("dev"), "warning server: its version 'dev' does not tell", id="no version"),
        pytest.param(served(""), "warning server: its version '' does not tell", id="no answer"),
    ],
)  # fmt: skip
def test_the_version_of_the_server_is_checked(version: ServerVersion, want: str) -> None:
    (line,) = lines(version_findings(version))
    assert line.startswith(want)


def definition(
    versions: dict[str, bool], labels: dict[str, str], established: bool = True, **spec: Any
) -> Definition:
    """Return a definition; ``versions``: name to whether it is the storage version."""
    condition = {"type": "Established", "status": str(established)}
    return codec.convert(
        Definition,
        {
            "metadata": {"name": "workloads.kueue.x-k8s.io", "labels": labels},
            "spec": {
                "group": "kueue.x-k8s.io",
                "names": {"plural": "workloads"},
                "versions": [
                    {"name": name, "served": True, "storage": stored} for name, stored in versions.items()
                ],
                **spec,
            },
            "status": {"conditions": [condition], "storedVersions": ["v1beta1", *versions]},
        },
    )


KUEUE = {"app.kubernetes.io/name": "kueue"}
OURS = {"app.kubernetes.io/name": "quorate", "app.kubernetes.io/managed-by": "Helm"}
ABOUT = "definition workloads.kueue.x-k8s.io"


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            definition({"v1beta2": True}, OURS),
            "info definitions of kueue.x-k8s.io: workloads: Quorate's by Helm; serve v1beta2, store v1beta2",
            id="installed by Quorate",
        ),
        pytest.param(
            definition({"v1beta1": True, "v1beta2": False}, KUEUE),
            f"warning {ABOUT}: Kueue's; it stores v1beta1, which cannot store some fields of v1beta2",
            id="the older version is stored",
        ),
        pytest.param(
            definition({"v1beta1": True}, KUEUE),
            f"error {ABOUT}: Kueue's; it serves v1beta1 and not v1beta2",
            id="an old version of Kueue",
        ),
        pytest.param(
            definition({"v1beta2": True}, OURS, established=False),
            f"error {ABOUT}: Quorate's by Helm; the server does not serve it",
            id="not established",
        ),
    ],
)
def test_a_definition_is_reported_with_product_and_versions(found: Definition, want: str) -> None:
    assert want in lines(definition_findings([found], ["workloads"]))


def test_missing_definitions_are_reported() -> None:
    assert lines(definition_findings([], ["workloads", "topologies"])) == [
        f"error {ABOUT}: it is not installed",
        "info definition topologies.kueue.x-k8s.io: it is not installed",
    ]


@pytest.mark.parametrize(
    ("found", "wanted", "want"),
    [
        (
            replace(NATIVE_POD_GROUPS, version="v1beta1"),
            False,
            "info native gangs: the server has pod groups of scheduling.k8s.io/v1beta1, and the policy",
        ),
        (
            Missing.GROUPS,
            True,
            "error native gangs: gangs: native, but the API server has no",
        ),
        (Missing.POLICY, True, "error native gangs: gangs: native, but the MutatingAdmissionPolicy"),
        (
            Missing.POLICY,
            False,
            "info native gangs: the server has pod groups; the Mutating",
        ),
        (Missing.GROUPS, False, ""),
    ],
)
def test_what_native_gangs_need_is_checked(found: NativeGangs, wanted: bool, want: str) -> None:
    said = lines(native_group_findings(found, None, wanted=wanted))
    assert len(said) == bool(want)
    assert all(line.startswith(want) for line in said)


@pytest.mark.parametrize(
    ("metrics", "wanted", "want"),
    [
        pytest.param("up 1\n", True, [], id="the server does not say"),
        pytest.param(gate_metrics(), True, [f"{GATES_ON}: none"], id="none is on, and gangs are wanted"),
        pytest.param(gate_metrics(), False, [], id="none is on, and none is needed"),
        pytest.param(
            gate_metrics("GenericWorkload", "PodLevelResources", "WorkloadWithJob"),
            False,
            [f"{GATES_ON}: GenericWorkload, WorkloadWithJob"],
            id="those of pod groups are listed",
        ),
    ],
)
def test_gates_of_pod_groups_are_reported(metrics: str, wanted: bool, want: list[str]) -> None:
    said = lines(native_group_findings(Missing.GROUPS, enabled_gates(metrics), wanted=wanted))
    assert said[wanted:] == want


def test_kinds_of_volcano_that_are_not_served_are_reported() -> None:
    names = ("jobs.batch.volcano.sh", "cronjobs.batch.volcano.sh", "jobflows.flow.volcano.sh")
    found = [codec.convert(Definition, {"metadata": {"name": name}}) for name in names]
    says = "objects of this kind have no effect: no process of Quorate reads them"
    assert lines(unserved_findings(found)) == [
        f"warning definition cronjobs.batch.volcano.sh: {says}",
        f"warning definition jobflows.flow.volcano.sh: {says}",
    ]


def test_versions_that_may_still_be_stored_are_reported() -> None:
    (finding,) = (
        finding
        for finding in definition_findings([definition({"v1beta2": True}, OURS)], ["workloads"])
        if "may still" in finding.says
    )
    assert finding.says == "objects may still be stored as v1beta1"


CLIENT = {"service": {"namespace": SERVICE.namespace, "name": SERVICE.name}, "caBundle": "Y2E="}
UNTRUSTED = {"service": CLIENT["service"]}


def test_an_endpoint_is_ready_unless_its_slice_says_that_it_is_not() -> None:
    endpoints = [{}, {"conditions": {"ready": True}}, {"conditions": {"ready": False}}]
    labels = {"kubernetes.io/service-name": SERVICE.name}
    metadata = {"name": "a", "namespace": SERVICE.namespace, "labels": labels}
    read = codec.convert(EndpointSlice, {"metadata": metadata, "endpoints": endpoints})
    assert (read.service, read.ready) == (SERVICE, 2)


@pytest.mark.parametrize(
    ("endpoints", "client", "want"),
    [
        pytest.param(READY, CLIENT, "", id="reachable"),
        pytest.param(EMPTY, CLIENT, f"service {SERVICE} has no ready pod", id="no pod"),
        pytest.param({}, CLIENT, f"service {SERVICE} is missing, or has no endpoints", id="no service"),
        pytest.param(
            READY, UNTRUSTED, "it has no caBundle, so its certificate is not trusted", id="not trusted"
        ),
        pytest.param({}, {"url": "https://elsewhere"}, "", id="by URL"),
        pytest.param({}, {}, "it has neither a service nor a URL", id="no target"),
    ],
)
def test_webhooks_that_cannot_be_reached_are_found(
    endpoints: dict[Key, int], client: dict[str, Any], want: str
) -> None:
    def configuration(policy: str) -> WebhookConfiguration:
        webhook = {"name": "mjob.kb.io", "clientConfig": client, "failurePolicy": policy}
        return codec.convert(
            WebhookConfiguration, {"metadata": {"name": "kueue-mutating"}, "webhooks": [webhook]}
        )

    strict = lines(webhook_findings([configuration("Fail")], endpoints))
    lenient = lines(webhook_findings([configuration("Ignore")], endpoints))
    about = "webhooks kueue-mutating"
    if not want:
        assert strict == lenient == [f"info {about}: 1 webhooks, all can be reached"]
        return
    assert strict == [f"error {about}: mjob.kb.io: {want}; with failurePolicy Fail these writes are refused"]
    assert lenient == [f"warning {about}: mjob.kb.io: {want}; with failurePolicy Ignore they are skipped"]


def test_other_webhooks_are_ignored() -> None:
    other = codec.convert(
        WebhookConfiguration,
        {"metadata": {"name": "policies"}, "webhooks": [{"name": "x", "rules": [{"apiGroups": ["apps"]}]}]},
    )
    (finding,) = webhook_findings([other], {})
    assert finding.says.startswith("none are installed")


def test_a_conversion_webhook_that_cannot_be_reached_is_an_error() -> None:
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": CLIENT}}
    found = definition({"v1beta2": True}, KUEUE, conversion=conversion)
    assert lines(conversion_findings([found], READY)) == []
    assert lines(conversion_findings([found], EMPTY)) == [
        f"error {ABOUT}: the conversion webhook cannot be reached: service {SERVICE} has no ready pod"
    ]


def deployment(image: str, namespace: str = "kueue-system", replicas: int = 1) -> Deployment:
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}}
    metadata = {"name": "manager", "namespace": namespace}
    return codec.convert(
        Deployment, {"metadata": metadata, "spec": spec, "status": {"readyReplicas": replicas}}
    )


def lease(namespace: str, renewed_at: float = NOW, name: str = "c1f6bfd2.kueue.x-k8s.io") -> HeldLease:
    spec = {
        "holderIdentity": f"{namespace}-leader",
        "renewTime": at_epoch(renewed_at),
        "leaseDurationSeconds": 15,
    }
    return codec.convert(HeldLease, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


LEASE = "c1f6bfd2.kueue.x-k8s.io"
KUEUES, QUORATES = "registry.example/kueue/kueue:v0.19.2", "registry.example/quorate:0.1.0"


@pytest.mark.parametrize(
    ("deployments", "leases", "errors"),
    [
        pytest.param([], [], [], id="none"),
        pytest.param([deployment(KUEUES)], [lease("kueue-system")], [], id="one"),
        pytest.param(
            [deployment(KUEUES), deployment(QUORATES, "other")], [],
            ["error controllers: Kueue and Quorate are both installed, and both would admit workloads"],
            id="both",
        ),
        pytest.param([deployment(KUEUES, replicas=0), deployment(QUORATES)], [], [], id="one is scaled to 0"),
        pytest.param(
            [], [lease("kueue-system"), lease("other")],
            ["error controllers: leaders are elected in 2 namespaces, so more than one admits workloads"],
            id="two leaders",
        ),
        pytest.param([], [lease("kueue-system"), lease("other", NOW - 16)], [], id="an expired lease"),
        pytest.param([], [lease("kueue-system"), lease("other", name="a")], [], id="an unrelated lease"),
        pytest.param([deployment("docker.io/library/nginx:1")], [], [], id="another product"),
    ],
)  # fmt: skip
def test_two_active_controllers_are_found(
    deployments: list[Deployment], leases: list[HeldLease], errors: list[str]
) -> None:
    findings = list(manager_findings(deployments, leases, LEASE, NOW))
    assert lines(finding for finding in findings if finding.severity is Severity.ERROR) == errors


def test_missing_permissions_are_reported_by_purpose() -> None:
    findings = access_findings("your permissions", {"recording events": ("create events", "patch events")})
    assert lines(findings) == [
        "error your permissions: recording events: may not create events, patch events"
    ]
    assert lines(access_findings("your permissions", {})) == [
        "info your permissions: they suffice to run the controllers"
    ]


def test_findings_are_sorted_by_severity() -> None:
    findings = (info("a", ""), error("b", ""), warning("c", ""), error("d", ""))
    assert [finding.about for finding in by_severity(findings)] == ["b", "d", "c", "a"]
