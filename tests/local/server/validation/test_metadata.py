"""Validation of metadata."""

import pytest

from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation import formats, metadata
from tests.local.server.validation.objects import show


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("a", True),
        ("example.com/a.b_c", True),
        ("", False),
        ("bad key!", False),
        ("/a", False),
        ("a/b/c", False),
        ("x" * 63, True),
        ("x" * 64, False),
        ("UPPER.com/a", False),
    ],
)
def test_label_keys(key: str, good: bool) -> None:
    assert (list(formats.qualified(key)) == []) is good


@pytest.mark.parametrize(
    ("path", "findings"),
    [
        ("", []),
        ("/", []),
        ("/validate/v1/", []),
        ("validate", ["must start with a '/'"]),
        ("//", ["segment[0] may not be empty"]),
        ("/a//b", ["segment[1] may not be empty"]),
    ],
)
def test_the_path_of_a_webhook_service(path: str, findings: list[str]) -> None:
    assert list(formats.url_path(path))[: len(findings) or 1] == findings


def test_metadata_reports_every_finding() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    meta = {
        "name": "Bad_Name",
        "labels": {"bad key!": "v", "a": "bad value!"},
        "finalizers": ["no-domain"],
        "ownerReferences": [owner, owner | {"uid": ""}],
    }
    kind = Kind("", "v1", "ConfigMap", "configmaps", True)
    assert show(metadata.validate(kind, {"metadata": meta})) == [
        "metadata.name Invalid",
        "metadata.labels Invalid",
        "metadata.labels Invalid",
        "metadata.finalizers[0] Invalid",
        "metadata.ownerReferences.uid Invalid",
        "metadata.ownerReferences Invalid",
    ]


def test_the_finalizers_of_a_custom_resource_need_no_domain() -> None:
    kind = Kind("example.com", "v1", "Widget", "widgets", True, custom=True)
    finalizers = ["no-domain", "a b"]
    assert show(metadata.validate(kind, {"metadata": {"name": "w", "finalizers": finalizers}})) == [
        "metadata.finalizers[1] Invalid"
    ]


def test_a_terminating_object_accepts_no_new_finalizer() -> None:
    kind = Kind("", "v1", "ConfigMap", "configmaps", True)
    old = {"metadata": {"name": "a", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c"]}}
    new = {"metadata": old["metadata"] | {"finalizers": ["a.b/c", "a.b/d"]}}
    assert show(metadata.validate_update(kind, new, old)) == ["metadata.finalizers Forbidden"]
    assert metadata.validate_update(kind, old, old) == []
