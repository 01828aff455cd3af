"""The generated CRDs are up to date, structural, and match the field lists."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from cel_expr_python import cel

from quorate.api.crds import (
    DESCRIPTIONS,
    KUEUE_FIELDS,
    QUORATE_FIELDS,
    VOLCANO_FIELDS,
    custom_resource_definitions,
    read_texts,
    source_of,
    to_yaml,
)
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.local.objects.cel.evaluation import Budget, evaluate
from quorate.local.objects.crd import definition as local
from quorate.local.objects.crd.cel import compile_rules
from quorate.webhooks.routes import WebhookEndpoint
from quorate.webhooks.webhook_configurations import conversion

SHIPPED = Path(__file__).parents[2] / "deploy" / "crds"
Json = dict[str, Any]


def shipped_text(name: str) -> str:
    return (files("quorate.api.crds") / name).read_text(encoding="utf-8")


def generated(field_list: str, descriptions: str = "", *, converted: bool = True) -> dict[str, Json]:
    endpoint = WebhookEndpoint(namespace="kueue-system", service="kueue-webhook-service")
    conversions = dict.fromkeys(CONVERTED_KINDS, conversion(endpoint)) if converted else {}
    definitions = custom_resource_definitions(shipped_text(field_list), conversions, descriptions)
    return {each["spec"]["names"]["kind"]: each for each in definitions}


QUEUEING = generated(KUEUE_FIELDS)
GANG = generated(VOLCANO_FIELDS)
OWN = generated(QUORATE_FIELDS)
TEXTS = shipped_text(DESCRIPTIONS)
DESCRIBED = {
    "": generated(KUEUE_FIELDS, TEXTS) | generated(QUORATE_FIELDS, TEXTS),
    "gang": generated(VOLCANO_FIELDS, TEXTS),
}
DEFINITIONS = QUEUEING | GANG | OWN
REFUSING = generated(KUEUE_FIELDS, converted=False)


def schema_of(kind: str, version: str = "", path: str = "") -> Json:
    """Return the schema of a kind, by default of its newest version."""
    versions = {each["name"]: each for each in reversed(DEFINITIONS[kind]["spec"]["versions"])}
    schema = versions[version or max(versions)]["schema"]["openAPIV3Schema"]
    for name in filter(None, path.split(".")):
        schema = schema["properties"][name.removesuffix("[]")]
        schema = schema["items"] if name.endswith("[]") else schema
    assert isinstance(schema, dict)
    return schema


def walk(path: str, schema: Json) -> Iterator[tuple[str, Json]]:
    """Yield a schema and all schemas in it, with their paths."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(f"{path}.{name}" if path else name, inner)
    for name, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if name in schema:
            yield from walk(path + suffix, schema[name])


def every_schema() -> Iterator[tuple[str, Json]]:
    """Yield every schema of every version of every kind, with its path."""
    for kind, definition in (*DEFINITIONS.items(), *REFUSING.items()):
        for version in definition["spec"]["versions"]:
            yield from walk(f"{kind}/{version['name']}", version["schema"]["openAPIV3Schema"])


@pytest.mark.parametrize(("directory", "definitions"), DESCRIBED.items())
def test_the_shipped_files_are_what_the_generator_writes(
    directory: str, definitions: dict[str, Json]
) -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in (SHIPPED / directory).glob("*.yaml")}
    written = {f"{each['metadata']['name']}.yaml": to_yaml(each) for each in definitions.values()}
    assert shipped == written, "run `make crds`"


def test_a_file_reads_back_as_the_definition() -> None:
    for definition in DEFINITIONS.values():
        assert yaml.load(to_yaml(definition), Loader=yaml.CSafeLoader) == definition


def test_every_kind_has_both_versions_and_stores_the_newer_one() -> None:
    assert sorted(QUEUEING) == [
        "AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "MultiKueueConfig",
        "ProvisioningRequestConfig", "ResourceFlavor", "Topology", "Workload", "WorkloadPriorityClass",
    ]  # fmt: skip
    for definition in QUEUEING.values():
        versions = [(v["name"], v["served"], v["storage"]) for v in definition["spec"]["versions"]]
        assert versions == [("v1beta2", True, True), ("v1beta1", True, False)]


def test_the_kinds_of_gang_scheduling_are_those_of_volcano() -> None:
    facts = {
        each["metadata"]["name"]: (
            each["spec"]["scope"], each["spec"]["names"].get("shortNames", []),
            [(v["name"], "subresources" in v) for v in each["spec"]["versions"]],
        )
        for each in GANG.values()
    }  # fmt: skip
    assert facts == {
        "podgroups.scheduling.volcano.sh": ("Namespaced", ["pg", "podgroup-v1beta1"], [("v1beta1", False)]),
        "queues.scheduling.volcano.sh": ("Cluster", ["q", "queue-v1beta1"], [("v1beta1", True)]),
        "jobs.batch.volcano.sh": ("Namespaced", ["vcjob", "vj"], [("v1alpha1", True)]),
        "commands.bus.volcano.sh": ("Namespaced", [], [("v1alpha1", False)]),
        "hypernodes.topology.volcano.sh": ("Cluster", ["hn"], [("v1alpha1", True)]),
    }


def test_the_older_version_is_deprecated() -> None:
    older = DEFINITIONS["Workload"]["spec"]["versions"][1]
    assert older["deprecated"] is True
    assert older["deprecationWarning"] == (
        "kueue.x-k8s.io/v1beta1 Workload is deprecated; use kueue.x-k8s.io/v1beta2 Workload"
    )


def test_every_schema_is_structural() -> None:
    for path, schema in every_schema():
        if schema.get("x-kubernetes-int-or-string"):
            assert "type" not in schema, path
            assert schema["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
        else:
            assert schema["type"] in {"object", "array", "string", "integer", "boolean"}, path
            assert "anyOf" not in schema, path
        assert not {"properties", "additionalProperties"} <= schema.keys(), path
        assert ("items" in schema) == (schema.get("type") == "array"), path
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys(), path


def test_keys_of_map_lists_are_required_or_have_defaults() -> None:
    """An API server rejects list type map if a key is neither required nor has a default."""
    for path, schema in every_schema():
        if schema.get("x-kubernetes-list-type") == "map":
            items = schema["items"]
            for key in schema["x-kubernetes-list-map-keys"]:
                assert key in items.get("required", ()) or "default" in items["properties"][key], path
                assert items["properties"][key]["type"] == "string", path


def test_defaults_satisfy_their_schema() -> None:
    python = {"string": str, "integer": int, "boolean": bool, "object": dict}
    for path, schema in every_schema():
        if "default" in schema:
            default = schema["default"]
            kind = (int, str) if schema.get("x-kubernetes-int-or-string") else python[schema["type"]]
            assert isinstance(default, kind), path
            assert default in schema.get("enum", [default]), path
            assert schema.get("minimum", default) == default or default >= schema["minimum"], path


def test_every_cel_rule_compiles() -> None:
    environment = cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})
    rules = {
        rule["rule"] for _, schema in every_schema() for rule in schema.get("x-kubernetes-validations", ())
    }
    for rule in rules:
        environment.compile(rule)
    assert len(rules) == 59 + len(set().union(*REFUSED.values()))


REFUSED = {
    "ClusterQueue spec": {"cohort", "admissionChecks"},
    "ClusterQueue status": {"pendingWorkloadsStatus"},
    "ClusterQueue status.fairSharing": {"admissionFairSharingStatus"},
    "Cohort status.fairSharing": {"admissionFairSharingStatus"},
    "LocalQueue status": {"flavorUsage", "flavors"},
    "MultiKueueCluster spec": {"clusterProfileRef", "kubeConfig"},
    "Workload spec": {"priorityClassName", "priorityClassSource"},
    "Workload status": {"accumulatedPastExexcutionTimeSeconds"},
    "Workload status.admission.podSetAssignments[].topologyAssignment": {"domains"},
}


def test_without_a_conversion_each_field_that_would_be_lost_is_refused() -> None:
    refused: dict[str, set[str]] = {}
    for kind in CONVERTED_KINDS:
        (older,) = (each for each in REFUSING[kind]["spec"]["versions"] if each["name"] == "v1beta1")
        for path, schema in walk("", older["schema"]["openAPIV3Schema"]):
            for rule in schema.get("x-kubernetes-validations", ()):
                if found := re.search(r"(\w+) would be lost", rule["message"]):
                    refused.setdefault(f"{kind} {path}", set()).add(found[1])
    assert refused == REFUSED


def test_without_a_conversion_older_versions_keep_the_fields_of_the_stored_one() -> None:
    for kind in CONVERTED_KINDS:
        stored, older = (
            {path for path, _ in walk("", each["schema"]["openAPIV3Schema"])}
            for each in REFUSING[kind]["spec"]["versions"]
        )
        assert stored <= older


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param({}, {}, False, id="without a policy"),
        pytest.param({"concurrentAdmissionPolicy": {"a": 1}}, {"concurrentAdmissionPolicy": {"a": 1}}, False,
                     id="the same policy"),
        pytest.param({}, {"concurrentAdmissionPolicy": {"a": 1}}, True, id="added"),
        pytest.param({"concurrentAdmissionPolicy": {"a": 1}}, {}, True, id="removed"),
        pytest.param({"concurrentAdmissionPolicy": {"a": 1}}, {"concurrentAdmissionPolicy": {"a": 2}}, True,
                     id="changed"),
    ],
)  # fmt: skip
def test_the_policy_of_concurrent_admission_is_immutable(old: Json, new: Json, refused: bool) -> None:
    rules = compile_rules(schema_of("ClusterQueue", path="spec")["x-kubernetes-validations"])
    (rule,) = (each for each in rules if "concurrentAdmissionPolicy" in each.text)
    (result,) = evaluate([rule.expression(new, [old])], Budget())
    assert result.value is not refused


@pytest.mark.parametrize(
    "definition",
    [pytest.param(each, id=kind) for kind, each in DEFINITIONS.items()]
    + [pytest.param(REFUSING[kind], id=f"{kind} without conversion") for kind in CONVERTED_KINDS],
)
def test_the_local_api_server_accepts_every_definition(definition: Json) -> None:
    definition = deepcopy(definition)
    local.set_defaults(definition)
    assert local.definition_findings(definition) == []


@pytest.mark.parametrize(
    ("kind", "version", "path", "want"),
    [
        pytest.param(
            "ClusterQueue", "v1beta2", "spec.queueingStrategy",
            {"type": "string", "default": "BestEffortFIFO", "enum": ["StrictFIFO", "BestEffortFIFO"]},
            id="an enumeration with a default",
        ),
        pytest.param(
            "ResourceFlavor", "v1beta2", "spec.nodeLabels",
            {
                "type": "object", "additionalProperties": {"type": "string"},
                "maxProperties": 8, "x-kubernetes-map-type": "atomic",
            },
            id="a map",
        ),
        pytest.param(
            "MultiKueueConfig", "v1beta2", "spec.clusters",
            {
                "type": "array", "items": {"type": "string", "maxLength": 256}, "minItems": 1, "maxItems": 20,
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    {
                        "rule": "size(self.filter(i, size(self.filter(j, j == i)) > 1)) == 0",
                        "message": "must be unique",
                    }
                ],
            },
            id="a list with a rule",
        ),
        pytest.param(
            "Workload", "v1beta1", "status.accumulatedPastExexcutionTimeSeconds",
            {"type": "integer", "format": "int32"}, id="the misspelled field name of v1beta1",
        ),
        pytest.param("WorkloadPriorityClass", "v1beta1", "value", {"type": "integer", "format": "int32"},
                     id="a field at the root"),
        pytest.param(
            "Job", "v1alpha1", "status.taskStatusCount",
            {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "phase": {
                            "type": "object", "additionalProperties": {"type": "integer", "format": "int32"},
                        }
                    },
                },
            },
            id="fields of the values of a map",
        ),
    ],
)  # fmt: skip
def test_schema(kind: str, version: str, path: str, want: Json) -> None:
    assert schema_of(kind, version, path) == want


@pytest.mark.parametrize(
    ("text", "right"),
    [("1", True), ("500m", True), (".5Gi", True), ("+1e-3", True), ("-2Ki", True), ("12E", True),
     ("1e1.5", True), ("1e", False),
     ("", False), ("4 cores", False), ("1Q", False), (".", False), ("e3", False), ("1.5.2", False)],
)  # fmt: skip
def test_quantities_are_checked_by_pattern(text: str, right: bool) -> None:
    quota = schema_of("ClusterQueue", path="spec.resourceGroups[].flavors[].resources[].nominalQuota")
    assert (re.search(quota["pattern"], text) is not None) is right


@pytest.mark.parametrize(
    ("value", "right"), [("1", True), ("+1e-3", True), ("-1", False), (1, True), (-1, False)]
)
def test_some_quantities_must_not_be_negative(value: str | int, right: bool) -> None:
    """Both as text and as numbers."""
    amounts = schema_of("PodGroup", path="spec.minResources")["additionalProperties"]
    if isinstance(value, str):
        assert (re.search(amounts["pattern"], value) is not None) is right
    else:
        assert (value >= amounts["minimum"]) is right


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_containers_are_keyed_by_name(version: str, field: str) -> None:
    containers = schema_of("Workload", version, f"spec.podSets[].template.spec.{field}")
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]


def test_pod_templates_are_not_pruned() -> None:
    spec = schema_of("Workload", path="spec.podSets[].template.spec")
    assert spec["x-kubernetes-preserve-unknown-fields"] is True
    assert spec["required"] == ["containers"]


def described_schemas() -> Iterator[tuple[str, str, str, Json]]:
    """Yield group/kind, version, path and schema of every schema with descriptions."""
    for definition in (each for definitions in DESCRIBED.values() for each in definitions.values()):
        spec = definition["spec"]
        for version in spec["versions"]:
            for path, schema in walk("", version["schema"]["openAPIV3Schema"]):
                yield f"{spec['group']}/{spec['names']['kind']}", version["name"], path, schema


def test_each_field_has_a_description() -> None:
    """Except ``metadata``, for which kube-apiserver allows none."""
    missing = {
        f"{kind} {version} {path}"
        for kind, version, path, schema in described_schemas()
        if path != "metadata"
        and not path.endswith(("[]", "{}"))
        and not schema.get("description", "").endswith(".")
    }
    assert missing == set(), f"describe them in {DESCRIPTIONS}"


def test_each_description_belongs_to_a_field() -> None:
    texts = read_texts(TEXTS)
    used = {source_of(kind, path, texts) for kind, _, path, _ in described_schemas()}
    given = {(section, path) for section, by_path in texts.items() for path in by_path}
    assert given - used == set()


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("", "the kind"),
        ("spec", "root spec"),
        ("spec.limits", "its own"),
        ("spec.other.limits", "limits anywhere"),
        ("spec.other[].limits", "limits of a list"),
        ("spec.unlimits", None),
    ],
)
def test_the_description_of_a_field(path: str, want: str | None) -> None:
    texts = {
        "g/Kind": {"": "the kind", "spec.limits": "its own"},
        "root": {"spec": "root spec", "limits": "root limits"},
        "anywhere": {"limits": "limits anywhere", "other[].limits": "limits of a list"},
    }
    found = source_of("g/Kind", path, texts)
    assert (texts[found[0]][found[1]] if found else None) == want


def test_definitions_can_be_applied_by_a_client() -> None:
    """``kubectl apply`` stores the object in an annotation, and all annotations have at most 256 KiB."""
    for definition in (each for definitions in DESCRIBED.values() for each in definitions.values()):
        assert len(json.dumps(definition)) < 200_000, definition["metadata"]["name"]


def test_a_conversion_can_be_given_by_kind() -> None:
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    text = (files("quorate.api.crds") / KUEUE_FIELDS).read_text(encoding="utf-8")
    definitions = custom_resource_definitions(text, {"Workload": webhook})
    conversions = {each["spec"]["names"]["kind"]: each["spec"]["conversion"] for each in definitions}
    assert conversions.pop("Workload") == webhook
    assert set(map(str, conversions.values())) == {"{'strategy': 'None'}"}
