"""Clients that still write objects as v1beta1."""

from typing import Any

from quorate.api import codec
from quorate.install.preflight.cluster_checks import WrittenObject, old_client_findings, written_kinds
from quorate.install.preflight.installation_objects import Definition


def a_definition(
    plural: str, *served: str, scope: str = "Cluster", group: str = "kueue.x-k8s.io"
) -> Definition:
    versions = [{"name": name, "served": True, "storage": name == served[-1]} for name in served]
    spec = {"group": group, "names": {"plural": plural, "kind": "K"}, "scope": scope, "versions": versions}
    return codec.convert(Definition, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})


def an_object(name: str, namespace: str = "", **managers: str) -> WrittenObject:
    owners: list[dict[str, Any]] = [
        {
            "manager": manager.replace("_", "-"),
            "apiVersion": f"kueue.x-k8s.io/{version}",
            "operation": "Update",
        }
        for manager, version in managers.items()
    ]
    metadata = {"name": name, "namespace": namespace, "managedFields": owners}
    return codec.convert(WrittenObject, {"metadata": metadata})


def test_kinds_that_are_served_in_both_versions_are_read_in_the_stored_one() -> None:
    kinds = written_kinds(
        [
            a_definition("workloads", "v1beta1", "v1beta2", scope="Namespaced"),
            a_definition("cohorts", "v1beta2"),
            a_definition("jobs", "v1beta1", "v1beta2", group="example.com"),
        ]
    )
    assert [(each.plural, each.version, each.namespaced) for each in kinds] == [
        ("workloads", "v1beta2", True)
    ]


def test_clients_that_wrote_the_old_version_are_named_with_examples() -> None:
    (queues, locals_) = written_kinds(
        [
            a_definition("clusterqueues", "v1beta1", "v1beta2"),
            a_definition("localqueues", "v1beta1", "v1beta2", scope="Namespaced"),
        ]
    )
    found = old_client_findings(
        [
            (queues, [an_object(f"q{n}", argo_cd="v1beta1", quorate="v1beta2") for n in range(4)]),
            (locals_, [an_object("l", "team", kubectl="v1beta1"), an_object("m", "team", kubectl="v1beta2")]),
        ]
    )
    assert [(each.about, each.says) for each in found] == [
        (
            "client argo-cd",
            "it wrote clusterqueues/q0, clusterqueues/q1, clusterqueues/q2 and 1 more as v1beta1",
        ),
        ("client kubectl", "it wrote localqueues/team/l as v1beta1"),
    ]
