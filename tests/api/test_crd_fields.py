"""The generated CRDs have the fields of Kueue's and Volcano's, except for the differences listed here.

``kueue-fields.yaml`` and ``volcano-fields.yaml`` hold the facts of Kueue 0.19.2 and Volcano 1.15.1: for each
field its type and what limits its values, in the words of ``facts_of``.  Pod templates and volume claims are
not divided.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.api.crds import KUEUE_FIELDS, VOLCANO_FIELDS
from tests.api.test_crds import generated

Json = dict[str, Any]
Facts = dict[str, str]

LIMITS = (
    "default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip
UNDIVIDED = ("template.spec", "template.metadata", "volumeClaim")


def facts_of(schema: Json, *, required: bool) -> str:
    """Return the type of a field, and what limits its values, as words."""
    quantity = schema.get("x-kubernetes-int-or-string", False)
    words = ["quantity" if quantity else schema["type"]]
    words += [schema["format"]] if "format" in schema else []
    words += ["required"] if required else []
    for limit in LIMITS:
        if limit in schema:
            value = sorted(schema[limit]) if limit == "enum" else schema[limit]
            words.append(f"{limit}={json.dumps(value, separators=(',', ':'))}")
    if "pattern" in schema and not quantity:
        words.append(f"pattern={schema['pattern']}")
    if "x-kubernetes-list-type" in schema:
        keys = ",".join(schema.get("x-kubernetes-list-map-keys", ()))
        words.append(f"list={schema['x-kubernetes-list-type']}" + (f"({keys})" if keys else ""))
    if "x-kubernetes-map-type" in schema:
        words.append(f"map={schema['x-kubernetes-map-type']}")
    if rules := schema.get("x-kubernetes-validations"):
        words.append(f"rules={len(rules)}")
    return " ".join(words)


def walk(path: str, schema: Json, *, required: bool = False) -> Iterator[tuple[str, str]]:
    """Yield path and facts of all fields of a schema."""
    undivided = path.endswith(UNDIVIDED)
    yield path, (schema["type"] if undivided else facts_of(schema, required=required))
    if undivided:
        return
    for name, inner in schema.get("properties", {}).items():
        if path or name not in {"apiVersion", "kind", "metadata"}:
            needed = name in schema.get("required", ())
            yield from walk(f"{path}.{name}" if path else name, inner, required=needed)
    for name, suffix in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(name), dict):
            yield from walk(path + suffix, schema[name])


def columns_of(version: Json) -> list[str]:
    """Return the columns that ``kubectl get`` prints, those only for ``-o wide`` with ``(wide)``."""
    return [
        f"{each['name']} {each['type']} {each['jsonPath']}" + (" (wide)" if each.get("priority") else "")
        for each in version.get("additionalPrinterColumns", ())
    ]


def facts_by_version(definitions: Iterator[Json]) -> Iterator[tuple[str, Json]]:
    """Yield ``GROUP/VERSION/KIND`` and all facts of each version of each definition."""
    for spec in (each["spec"] for each in definitions):
        names = spec["names"]
        for version in spec["versions"]:
            facts: Json = {
                "names": [spec["scope"], names["plural"], names["singular"], *names.get("shortNames", ())],
                "subresources": sorted(version.get("subresources") or ()),
                "served": [name for name in ("served", "storage", "deprecated") if version.get(name)],
                "columns": columns_of(version),
                "fields": dict(walk("", version["schema"]["openAPIV3Schema"])),
            }
            yield f"{spec['group']}/{version['name']}/{names['kind']}", facts


def read_facts(name: str) -> dict[str, Json]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    read: dict[str, Json] = yaml.load(text, Loader=yaml.CSafeLoader)
    return read


THEIRS = {"kueue": read_facts("kueue-fields.yaml"), "volcano": read_facts("volcano-fields.yaml")}
OURS = {
    name: dict(facts_by_version(iter(generated(fields).values())))
    for name, fields in (("kueue", KUEUE_FIELDS), ("volcano", VOLCANO_FIELDS))
}


def differences(theirs: Facts, ours: Facts) -> dict[str, tuple[str, str]]:
    """Return what only theirs, and only ours says of each field that differs."""
    found = {}
    for path in sorted(theirs.keys() | ours.keys()):
        left, right = theirs.get(path, "").split(), ours.get(path, "").split()
        if left != right:
            found[path] = (
                " ".join(word for word in left if word not in right),
                " ".join(word for word in right if word not in left),
            )
    return found


NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{NAME}(\.{NAME})*"
TIMEOUT = r"string maxLength=32 pattern=^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$"
JOB_PHASES = (
    '"Aborted","Aborting","Completed","Completing","Failed","Pending","Restarting","Running","Terminated",'
    '"Terminating"'
)
CONDITION_TYPE = rf"^({SUBDOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
CHECK_PARAMETERS = {  # the same values; not every implementation accepts a flag within a pattern
    "spec.parameters.kind": (
        "pattern=^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$", "pattern=^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$",
    ),
}  # fmt: skip
QUEUE_TIMEOUTS = {
    "spec.waitForPodsReady": ("", "object"),
    "spec.waitForPodsReady.recoveryTimeout": ("", TIMEOUT),
    "spec.waitForPodsReady.schedulingTimeout": ("", TIMEOUT),
    "spec.waitForPodsReady.timeout": ("", TIMEOUT),
}
DELIBERATE: dict[str, dict[str, tuple[str, str]]] = {
    "kueue.x-k8s.io/v1beta1/AdmissionCheck": CHECK_PARAMETERS,
    "kueue.x-k8s.io/v1beta2/AdmissionCheck": CHECK_PARAMETERS,
    "kueue.x-k8s.io/v1beta1/ClusterQueue": QUEUE_TIMEOUTS,
    "kueue.x-k8s.io/v1beta2/ClusterQueue": QUEUE_TIMEOUTS | {"spec": ("rules=1", "rules=2")},
    "topology.volcano.sh/v1alpha1/HyperNode": {
        "spec.members": ("", "maxItems=16384"),
        "spec.tier": ("", "int32"),
        "status.conditions[].message": ("maxLength=32768", ""),
        "status.conditions[].observedGeneration": ("minimum=0", ""),
        "status.conditions[].reason": (
            "minLength=1 maxLength=1024 pattern=^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "",
        ),
        "status.conditions[].type": (f"maxLength=316 pattern={CONDITION_TYPE}", ""),
    },
    "batch.volcano.sh/v1alpha1/Job": {
        "spec.networkTopology": ("", "rules=1"),
        "spec.networkTopology.highestTierAllowed": ("", "int32"),
        "spec.priorityClassName": (f"pattern=^{SUBDOMAIN}$", f"pattern=^({SUBDOMAIN})?$"),
        "spec.queue": (f"pattern=^{SUBDOMAIN}$", f"pattern=^({SUBDOMAIN})?$"),
        "spec.tasks[].maxRetry": ("minimum=0", "minimum=-1"),
        "spec.tasks[].name": (f"pattern=^{NAME}$", f"pattern=^({NAME})?$"),
        "spec.tasks[].partitionPolicy.networkTopology.highestTierAllowed": ("", "int32"),
        "spec.tasks[].topologyPolicy": (
            'enum=["best-effort","none","restricted","single-numa-node"]',
            'enum=["","best-effort","none","restricted","single-numa-node"]',
        ),
        "status.conditions[].status": ("", f'enum=["",{JOB_PHASES}]'),
        "status.state.phase": (f"enum=[{JOB_PHASES}]", f'enum=["",{JOB_PHASES}]'),
    },
    "scheduling.volcano.sh/v1beta1/PodGroup": {
        "spec.minResources{}": ("", "minimum=0"),
        "spec.minTaskMember{}": ("", "minimum=0"),
        "spec.networkTopology": ("", "rules=1"),
        "spec.networkTopology.highestTierAllowed": ("", "int32"),
        "spec.queue": (f"pattern=^{SUBDOMAIN}$", ""),
        "spec.subGroupPolicy": ("", "maxItems=1024"),
        "spec.subGroupPolicy[].networkTopology": ("", "rules=1"),
        "spec.subGroupPolicy[].networkTopology.highestTierAllowed": ("", "int32"),
        "status.conditions[].status": ("", 'enum=["False","True","Unknown"]'),
        "status.phase": (
            'enum=["Completed","Inqueue","Pending","Running","Unknown"]',
            'enum=["","Completed","Inqueue","Pending","Running","Unknown"]',
        ),
    },
    "scheduling.volcano.sh/v1beta1/Queue": {
        "": ("", "rules=1"),
        "spec.capability{}": ("", "minimum=0"),
        "spec.deserved{}": ("", "minimum=0"),
        "spec.guarantee.resource{}": ("", "minimum=0"),
        "spec.maxPodGroups": ("", "integer int32 minimum=0"),
        "spec.parent": (f"pattern=^{SUBDOMAIN}$", ""),
        "spec.reclaimable": ("", "default=true"),
        "status.state": (
            'enum=["Closed","Closing","Open","Unknown"]', 'enum=["","Closed","Closing","Open","Unknown"]',
        ),
    },
}  # fmt: skip
OUR_COLUMNS = {
    "scheduling.volcano.sh/v1beta1/Queue": [
        "STATE string .status.state (wide)", "WEIGHT integer .spec.weight (wide)",
    ]
}  # fmt: skip
EACH = [pytest.param(name, kind, id=kind) for name, kinds in THEIRS.items() for kind in kinds]


@pytest.mark.parametrize("name", THEIRS)
def test_the_same_kinds_and_versions(name: str) -> None:
    assert OURS[name].keys() == THEIRS[name].keys()


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_the_same_fields(name: str, kind: str) -> None:
    found = differences(THEIRS[name][kind]["fields"], OURS[name][kind]["fields"])
    assert found == DELIBERATE.get(kind, {}), "list deliberate differences on the page of deviations too"


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_the_same_names_subresources_and_columns(name: str, kind: str) -> None:
    theirs, ours = THEIRS[name][kind], OURS[name][kind]
    for fact in ("names", "subresources", "served"):
        assert ours[fact] == theirs[fact], fact
    assert ours["columns"] == theirs["columns"] + OUR_COLUMNS.get(kind, [])


@pytest.mark.parametrize(
    ("theirs", "ours", "want"),
    [
        ({"a": "string"}, {"a": "string"}, {}),
        ({"a": "string required"}, {"a": "string"}, {"a": ("required", "")}),
        ({"a": "string"}, {}, {"a": ("string", "")}),
        ({}, {"a": "integer int32"}, {"a": ("", "integer int32")}),
        ({"a": "string maxLength=3"}, {"a": "string maxLength=4"}, {"a": ("maxLength=3", "maxLength=4")}),
    ],
)
def test_a_difference(theirs: Facts, ours: Facts, want: dict[str, tuple[str, str]]) -> None:
    assert differences(theirs, ours) == want
