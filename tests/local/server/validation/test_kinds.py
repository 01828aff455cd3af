"""Validation of the smaller kinds; cases list field and reason."""

from typing import Any

import pytest

from tests.local.server.validation.objects import show
from tests.local.server.validation.strategies import STRATEGIES

Json = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
TIME = "2026-01-01T00:00:00.000000Z"
SLICE = {"pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"}
ZONES = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "rack", "values": ["c"]}]}
DEVICE_CONDITIONS = (
    "device.driver == 'a'",
    "device.attributes['a.b'].model.startsWith('x')",
    "device.capacity['a.b'].memory.compareTo(quantity('1Gi')) >= 0",
    "device.driver ==",
    "'a'",
)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def csi_node(count: int = 1, **drivers: str) -> Json:
    """Return a CSINode with the ids of the node by driver, each of which attaches ``count`` volumes."""
    entries = [
        {"name": name, "nodeID": node, "allocatable": {"count": count}} for name, node in drivers.items()
    ]
    return {"spec": {"drivers": entries}}


@pytest.mark.parametrize(
    ("resource", "obj", "want"),
    [
        ("services", {"spec": {}}, ["spec.ports Required"]),
        (
            "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            {"spec": {"policyName": "p", "validationActions": ["Deny", "Audit", "Deny"]}},
            ["spec.validationActions[2] Duplicate"],
        ),
        (
            "certificatesigningrequests.certificates.k8s.io",
            {"status": {"conditions": [{"type": "Approved", "status": "False"}]}},
            [
                "spec.request Invalid",
                "spec.usages Required",
                "spec.signerName Invalid",
                "status.conditions[0].status NotSupported",
            ],
        ),
        (
            "persistentvolumes",
            {"spec": VOLUME | {"hostPath": {"path": "/x"}, "nodeAffinity": {"required": {}}}},
            ["spec.nodeAffinity.required.nodeSelectorTerms Required"],
        ),
        ("services", {"spec": {"clusterIP": "None"}}, []),
        ("services", {"spec": {"type": "ExternalName"}}, ["spec.externalName Required"]),
        ("services", {"spec": {"ports": [{"port": 0}]}}, ["spec.ports[0].port Invalid"]),
        (
            "services",
            {"spec": {"ports": [{"port": 80, "nodePort": 30_000}]}},
            ["spec.ports[0].nodePort Forbidden"],
        ),
        (
            "services",
            {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "a"}]}},
            ["spec.ports[1].name Duplicate", "spec.ports[1] Duplicate"],
        ),
        ("configmaps", {"data": {"a b": ""}}, ["data[a b] Invalid"]),
        ("configmaps", {"data": {"a": ""}, "binaryData": {"a": ""}}, ["data[a] Invalid"]),
        ("configmaps", {"data": {"a": "x" * 2**20}}, []),
        ("configmaps", {"data": {"a": "x" * 2**20, "b": "x"}}, [" TooLong"]),
        ("secrets", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key] Required"]),
        (
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            {
                "webhooks": [
                    {
                        "name": "a.example.com",
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "clientConfig": {"url": "https://[::1", "caBundle": "YQ=="},
                    }
                ]
            },
            ["webhooks[0].clientConfig.url Invalid"],
        ),
        ("namespaces", {"spec": {"finalizers": ["a b"]}}, ["spec.finalizers[0] Invalid"]),
        ("nodes", {"spec": {"taints": [{"key": "a"}]}}, ["metadata.taints[0].effect Required"]),
        (
            "nodes",
            {"spec": {"taints": [{"key": "a", "effect": "X"}]}},
            ["metadata.taints[0].effect NotSupported"],
        ),
        ("nodes", {"status": {"capacity": {"cpu": "-1"}}}, ["status.capacity.cpu Invalid"]),
        (
            "leases.coordination.k8s.io",
            {"spec": {"leaseDurationSeconds": 0}},
            ["spec.leaseDurationSeconds Invalid"],
        ),
        ("leases.coordination.k8s.io", {"spec": {"leaseTransitions": -1}}, ["spec.leaseTransitions Invalid"]),
        ("runtimeclasses.node.k8s.io", {"handler": "Bad_Name"}, ["handler Invalid"]),
        ("events", {"involvedObject": {"namespace": "other"}}, ["involvedObject.namespace Invalid"]),
        (
            "events",
            {"eventTime": TIME, "involvedObject": {"namespace": "other"}, "reportingComponent": "a b"},
            [
                "reportingInstance Required",
                "action Required",
                "reason Required",
                "reportingComponent Invalid",
            ],
        ),
        (
            "endpointslices.discovery.k8s.io",
            {
                "addressType": "IPv4",
                "ports": [{"port": 0}, {"port": 70_000, "name": "A", "appProtocol": "a b"}],
            },
            ["ports[1].name Invalid", "ports[1].appProtocol Invalid"],
        ),
        (
            "endpointslices.discovery.k8s.io",
            {"addressType": "IPv4", "ports": [{}, {}]},
            ["ports[1].name Duplicate"],
        ),
        ("resourceslices.resource.k8s.io", {"spec": {**SLICE, "driver": "Driver.Example"}}, []),
        ("resourceslices.resource.k8s.io", {"spec": {**SLICE, "driver": "a_b"}}, ["spec.driver Invalid"]),
        ("resourceslices.resource.k8s.io", {"spec": {**SLICE, "driver": "x" * 64}}, ["spec.driver TooLong"]),
        (
            "persistentvolumes",
            {"spec": {"local": {"path": "/disk"}}},
            ["spec.accessModes Required", "spec.capacity Required", "spec.nodeAffinity Required"],
        ),
        (
            "persistentvolumes",
            {"spec": {**VOLUME, "csi": {"driver": "d"}, "hostPath": {"path": "/"}, "nodeAffinity": {}}},
            [
                "spec.hostPath Forbidden",
                "spec.csi.volumeHandle Required",
                "spec.nodeAffinity.required Required",
            ],
        ),
        ("persistentvolumes", {"spec": VOLUME}, ["spec Required"]),
        ("persistentvolumeclaims", {"spec": CLAIM}, []),
        (
            "persistentvolumeclaims",
            {"spec": {"accessModes": ["ReadWriteOncePod", "ReadOnlyMany", "Any"]}},
            [
                "spec.accessModes NotSupported",
                "spec.accessModes Forbidden",
                "spec.resources[storage] Required",
            ],
        ),
        ("storageclasses.storage.k8s.io", {}, ["provisioner Required"]),
        (
            "storageclasses.storage.k8s.io",
            {"provisioner": "a.b/c", "volumeBindingMode": "Late", "reclaimPolicy": "Recycle"},
            ["reclaimPolicy NotSupported", "volumeBindingMode NotSupported"],
        ),
        (
            "storageclasses.storage.k8s.io",
            {
                "provisioner": "a.b/c",
                "allowedTopologies": [
                    ZONES,
                    {"matchLabelExpressions": [*reversed(ZONES["matchLabelExpressions"])]},
                ],
            },
            ["allowedTopologies[1].matchLabelExpressions Duplicate"],
        ),
        (
            "storageclasses.storage.k8s.io",
            {
                "provisioner": "a.b/c",
                "allowedTopologies": [
                    {"matchLabelExpressions": [{"key": "a b", "values": ["x", "x"]}, {"key": "a b"}]}
                ],
            },
            [
                "allowedTopologies[0].matchLabelExpressions[0].values[1] Duplicate",
                "allowedTopologies[0].matchLabelExpressions[0].key Invalid",
                "allowedTopologies[0].matchLabelExpressions[1].values Required",
                "allowedTopologies[0].matchLabelExpressions[1].key Invalid",
                "allowedTopologies[0].matchLabelExpressions[1].key Duplicate",
            ],
        ),
        (
            "csidrivers.storage.k8s.io",
            {"spec": {"nodeAllocatableUpdatePeriodSeconds": 9}},
            ["spec.nodeAllocatableUpdatePeriodSeconds Invalid"],
        ),
        (
            "deviceclasses.resource.k8s.io",
            {"spec": {"selectors": [{"cel": {"expression": text}} for text in DEVICE_CONDITIONS]}},
            ["spec.selectors[3].cel.expression Invalid", "spec.selectors[4].cel.expression Invalid"],
        ),
        (
            "deviceclasses.resource.k8s.io",
            {"spec": {"config": [{"opaque": {"driver": "a.b"}}]}},
            ["spec.config[0].opaque.parameters Required"],
        ),
        (
            "csinodes.storage.k8s.io",
            {"spec": {"drivers": [{"name": "a"}, {"name": "a", "nodeID": "i", "allocatable": {"count": 0}}]}},
            [
                "spec.drivers[0].nodeID Required",
                "spec.drivers[1].name Duplicate",
                "spec.drivers[1].allocatable.count Invalid",
            ],
        ),
        (
            f"roles.{RBAC}",
            {"rules": [{"verbs": ["get"], "apiGroups": [""]}]},
            ["rules[0].resources Required"],
        ),
        (
            f"roles.{RBAC}",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
            ["rules[0].nonResourceURLs Invalid"],
        ),
        (f"clusterroles.{RBAC}", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, []),
        (
            f"clusterrolebindings.{RBAC}",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "s"}]},
            ["roleRef.kind NotSupported", "subjects[0].namespace Required"],
        ),
        (f"rolebindings.{RBAC}", {"roleRef": {"kind": "Role"}}, ["roleRef.name Required"]),
        (
            "priorityclasses.scheduling.k8s.io",
            {"value": 1_000_000_001, "preemptionPolicy": "X"},
            ["value Forbidden", "preemptionPolicy NotSupported"],
        ),
    ],
)
def test_creation_of_other_kinds(resource: str, obj: Json, want: list[str]) -> None:
    named = {"metadata": {"name": "n", "namespace": "default"}} | obj
    strategy = STRATEGIES[resource]
    assert show([*strategy.validate(named), *strategy.validate_create(named)]) == want


@pytest.mark.parametrize(
    ("resource", "old", "new", "want"),
    [
        ("configmaps", {"immutable": True, "data": {"a": "1"}}, {"immutable": True}, ["data Forbidden"]),
        ("configmaps", {"immutable": True}, {}, ["immutable Forbidden"]),
        ("secrets", {"type": "a"}, {"type": "b"}, ["type Invalid"]),
        ("priorityclasses.scheduling.k8s.io", {"value": 1}, {"value": 2}, ["value Forbidden"]),
        ("runtimeclasses.node.k8s.io", {"handler": "a"}, {"handler": "b"}, ["handler Invalid"]),
        (
            "nodes",
            {"spec": {"providerID": "a"}},
            {"spec": {"providerID": "b"}},
            ["spec.providerID Forbidden"],
        ),
        ("nodes", {"spec": {}}, {"spec": {"providerID": "b"}}, []),
        (
            "services",
            {"spec": {"clusterIP": "10.0.0.1"}},
            {"spec": {"clusterIP": "None"}},
            ["spec.clusterIPs[0] Invalid"],
        ),
        (f"rolebindings.{RBAC}", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}}, ["roleRef Invalid"]),
        (
            "storageclasses.storage.k8s.io",
            {"provisioner": "a"},
            {"provisioner": "b"},
            ["provisioner Invalid"],
        ),
        ("csinodes.storage.k8s.io", csi_node(a="1", b="2"), csi_node(b="2", c="3"), []),
        ("csinodes.storage.k8s.io", csi_node(a="1"), csi_node(4, a="1"), []),
        ("csinodes.storage.k8s.io", csi_node(a="1"), csi_node(a="2"), ["spec.drivers Invalid"]),
    ],
)
def test_updates_of_other_kinds(resource: str, old: Json, new: Json, want: list[str]) -> None:
    assert show(STRATEGIES[resource].validate_update(new, old)) == want


@pytest.mark.parametrize(
    ("type_", "want"),
    [("LoadBalancer", []), ("ClusterIP", ["status.loadBalancer.ingress Forbidden"])],
)
def test_only_a_load_balancer_has_its_addresses(type_: str, want: list[str]) -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    service = {"spec": {"type": type_}, "status": status}
    assert show(STRATEGIES["services"].validate_status(service, {})) == want
