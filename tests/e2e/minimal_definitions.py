"""CustomResourceDefinitions that accept any spec and status, for kinds of other projects."""

from typing import Any

from quorate.kube.resources import Resource

Json = dict[str, Any]

FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
UNAPPROVED: Json = {"api-approved.kubernetes.io": "unapproved, a test CRD"}  # for groups below k8s.io


def definition(resource: Resource[Any]) -> Json:
    schema = {"type": "object", "properties": {"spec": FREE, "status": FREE}}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {
        "plural": resource.plural,
        "singular": resource.kind.lower(),
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "annotations": UNAPPROVED},
        "spec": {"group": resource.group, "scope": scope, "names": names, "versions": [version]},
    }
