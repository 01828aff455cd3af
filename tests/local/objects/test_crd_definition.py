"""Defaulting, validation, status and compilation of CustomResourceDefinitions."""

import copy
from importlib.resources import files
from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.api.crds import custom_resource_definitions
from quorate.local.objects.crd import definition as crd


def a_definition(plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object"}}}
    made: Json = {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
            **spec,
        },
    }
    crd.set_defaults(made)
    return made


def a_version(name: str, storage: bool = False, schema: Json | None = None, **more: Any) -> Json:
    whole = {"openAPIV3Schema": schema or {"type": "object"}}
    return {"name": name, "served": True, "storage": storage, "schema": whole, **more}


def test_names_and_conversion_are_defaulted() -> None:
    spec = a_definition()["spec"]
    assert spec["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({}, "", id="valid"),
        pytest.param({"scope": "Everywhere"}, "spec.scope", id="an unknown scope"),
        pytest.param({"group": "short"}, "spec.group", id="a group without a dot"),
        pytest.param({"versions": []}, "spec.versions status.storedVersions", id="no storage version"),
        pytest.param(
            {"versions": [a_version("v1", True), a_version("v2", True)]},
            "spec.versions status.storedVersions",
            id="two storage versions",
        ),
        pytest.param(
            {"versions": [a_version("v1", True), a_version("v1")]},
            "spec.versions[1].name",
            id="a duplicate version",
        ),
        pytest.param(
            {"versions": [{"name": "v1", "served": True, "storage": True}]},
            "spec.versions[0].schema.openAPIV3Schema",
            id="no schema",
        ),
    ],
)
def test_findings(change: Json, want: str) -> None:
    assert " ".join(cause.field for cause in crd.definition_findings(a_definition(**change))) == want


def ruled(rule: str) -> Json:
    """Return a schema with a rule for a number, a list, an object and a map."""
    fields: Json = {
        "x": {"type": "integer"},
        "l": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"-n": {"type": "integer"}}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    return {"type": "object", "properties": fields, "x-kubernetes-validations": [{"rule": rule}]}


@pytest.mark.parametrize(
    ("schema", "want"),
    [
        pytest.param({}, "type", id="no type at the root"),
        pytest.param({"type": "array"}, "type items", id="not an object at the root"),
        pytest.param(
            {"type": "object", "properties": {"x": {}}}, "properties[x].type", id="a field without a type"
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"x-kubernetes-int-or-string": True}}},
            "",
            id="int-or-string",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}},
            "properties[x].pattern",
            id="not a pattern",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-validations": [{"rule": "true"}, {"rule": "self +"}]},
            "x-kubernetes-validations[1].rule",
            id="not a rule",
        ),
        pytest.param(
            ruled("self.l.size() > self.o.__dash__n && self.m.any == '' && 'self.z' != ''"),
            "",
            id="a rule about fields of the schema",
        ),
        pytest.param(ruled("self.metadata.name == self.kind"), "", id="fields of every object"),
        pytest.param(
            ruled("!has(self.z)"), "x-kubernetes-validations[0].rule", id="a rule about an undefined field"
        ),
        pytest.param(
            ruled("self.o.z >= oldSelf.o.__dash__n"),
            "x-kubernetes-validations[0].rule",
            id="an undefined field of a field",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    "l": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                    }
                },
            },
            "properties[l].items.properties[k].default",
            id="an optional key",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}},
            "additionalProperties",
            id="a restricted metadata field",
        ),
        pytest.param(
            {"type": "object", "properties": {"metadata": {"type": "object", "required": ["labels"]}}},
            "properties[metadata]",
            id="the properties of metadata",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"type": "string", "anyOf": [{"type": "string"}]}}},
            "properties[x].anyOf[0].type",
            id="a type in a value validation",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    "x": {
                        "x-kubernetes-int-or-string": True,
                        "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^1"}],
                    }
                },
            },
            "",
            id="the two forms of int-or-string",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"type": "object", "x-kubernetes-list-type": "bag"}}},
            "properties[x].type properties[x].x-kubernetes-list-type",
            id="an unknown list type",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1, "default": 0}}},
            "properties[x].default",
            id="an invalid default",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    "x": {
                        "type": "object",
                        "required": ["y"],
                        "default": {},
                        "properties": {"y": {"type": "string", "default": "z"}},
                    }
                },
            },
            "properties[x].default.y",
            id="a default that nested defaults complete",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"type": "object", "default": {"y": 1}}}},
            "properties[x].default",
            id="a default with unknown fields",
        ),
        pytest.param(
            {"type": "object", "properties": {"x": {"$ref": "#/y", "type": "object"}}},
            "properties[x].$ref",
            id="$ref",
        ),
    ],
)
def test_schema_findings(schema: Json, want: str) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if not schema:
        version["schema"] = {"openAPIV3Schema": {"description": "nothing"}}
    found = crd.definition_findings(a_definition(versions=[version]))
    prefix = "spec.validation.openAPIV3Schema."
    assert " ".join(cause.field.removeprefix(prefix) for cause in found) == want


@pytest.mark.parametrize(
    ("paths", "want"),
    [
        pytest.param([".spec.a"], "", id="a string"),
        pytest.param([".spec.b"], "[0].jsonPath", id="a field that the schema does not declare"),
        pytest.param([".spec"], "[0].jsonPath", id="an object"),
        pytest.param([".spec.a", ".spec.a"], "[1].jsonPath", id="twice the same"),
        pytest.param([""], "[0].jsonPath", id="no path"),
    ],
)
def test_selectable_fields_are_declared_scalars(paths: list[str], want: str) -> None:
    spec = {"type": "object", "properties": {"a": {"type": "string"}}}
    version = a_version("v1", True) | {
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "selectableFields": [{"jsonPath": path} for path in paths],
    }
    found = crd.definition_findings(a_definition(versions=[version]))
    assert " ".join(cause.field.removeprefix("spec.selectableFields") for cause in found) == want


@pytest.mark.parametrize(
    ("change", "want"),
    [({"scope": "Cluster"}, ["spec.scope"]), ({"group": "x.example.com"}, ["spec.group"]), ({}, [])],
)
def test_identity_cannot_be_updated(change: Json, want: list[str]) -> None:
    old = a_definition()
    new = copy.deepcopy(old)
    new["spec"] |= change
    assert [cause.field for cause in crd.update_findings(new, old)] == want


def test_the_name_of_a_new_definition_is_plural_and_group() -> None:
    definition = a_definition()
    assert crd.creation_findings(definition) == []
    definition["metadata"]["name"] = "gadgets.example.com"
    assert [cause.field for cause in crd.creation_findings(definition)] == ["metadata.name"]


@pytest.mark.parametrize(
    ("group", "said", "want"),
    [
        pytest.param("jobs.k8s.io", "", "FieldValueRequired", id="no annotation"),
        pytest.param("kubernetes.io", "by me", "FieldValueInvalid", id="neither a URL nor a reason"),
        pytest.param("jobs.k8s.io", "https://example.com/1", "", id="approved"),
        pytest.param("jobs.k8s.io", "unapproved, a test", "", id="explicitly unapproved"),
        pytest.param("jobs.x-k8s.io", "", "", id="an unprotected group"),
    ],
)
def test_a_protected_group_requires_approval(group: str, said: str, want: str) -> None:
    definition = a_definition(group=group)
    definition["metadata"] = {"name": f"widgets.{group}", "annotations": {crd.APPROVED: said}}
    assert " ".join(cause.reason for cause in crd.creation_findings(definition)) == want


def test_a_stored_version_cannot_be_dropped() -> None:
    old = a_definition(versions=[a_version("v1", True), a_version("v2")])
    old["status"] = {"storedVersions": ["v1"]}
    new = a_definition(versions=[a_version("v2", True)])
    assert [cause.field for cause in crd.update_findings(new, old)] == ["status.storedVersions"]


def test_versions_sort_by_stability_and_number() -> None:
    names = ["v1alpha1", "v2beta1", "foo", "v1", "v1beta2", "v10", "v2"]
    assert sorted(names, key=crd.version_priority) == [
        "v10",
        "v2",
        "v1",
        "v2beta1",
        "v1beta2",
        "v1alpha1",
        "foo",
    ]


def test_free_names_are_accepted_at_once() -> None:
    status = crd.naming_status(a_definition(), [], "now")
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert status["acceptedNames"]["kind"] == "Widget"
    assert status["storedVersions"] == ["v1"]


def test_names_in_use_are_rejected() -> None:
    taken = crd.compile_definition(a_definition())
    status = crd.naming_status(a_definition("gadgets", "Widget"), [taken], "now")
    assert [(c["status"], c["reason"]) for c in status["conditions"]] == [
        ("False", "NameConflict"),
        ("False", "NotAccepted"),
    ]


def test_conditions_keep_the_time_of_their_last_change() -> None:
    definition = a_definition()
    definition["status"] = crd.naming_status(definition, [], "first")
    definition["spec"]["versions"] = [a_version("v1"), a_version("v2", True)]
    status = crd.naming_status(definition, [], "second")
    assert {c["lastTransitionTime"] for c in status["conditions"]} == {"first"}
    assert status["storedVersions"] == ["v1", "v2"]


def test_compiled_definitions() -> None:
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}]
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    compiled = crd.compile_definition(
        a_definition(
            versions=[
                a_version("v1beta1", deprecated=True, additionalPrinterColumns=columns),
                a_version("v1", True, subresources={"status": {}, "scale": scale}),
            ]
        )
    )
    assert list(compiled.versions) == ["v1", "v1beta1"]
    assert compiled.storage_version == "v1"
    beta, stable = compiled.versions["v1beta1"], compiled.versions["v1"]
    assert beta.columns == (crd.Column("Size", "integer", ".spec.size", priority=1),)
    assert beta.warning == "example.com/v1beta1 Widget is deprecated"
    assert (beta.has_status, stable.has_status) == (False, True)
    assert stable.scale == crd.ScalePaths(".spec.replicas", ".status.replicas")


def test_kueues_definitions_are_valid_and_compile() -> None:
    field_list = files("quorate.api.crds").joinpath("kueue.yaml").read_text("utf-8")
    for definition in custom_resource_definitions(field_list):
        crd.set_defaults(definition)
        assert crd.definition_findings(definition) == []
        assert crd.creation_findings(definition) == []
        compiled = crd.compile_definition(definition)
        assert compiled.versions[compiled.storage_version].served
