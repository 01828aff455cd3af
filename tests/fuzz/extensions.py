"""Attacks on extensions of the API: definitions with rules and columns, webhooks, policies, APIServices."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tests.fuzz.mutations import mutate
from tests.fuzz.requests import MERGE, Request
from tests.fuzz.schemas import ANY
from tests.fuzz.values import ANYTHING, BY_TYPE
from tests.local.objects.test_cel_evaluation import doubled, slow

Json = dict[str, Any]

NAMESPACE: Final = "fuzz"
GROUP: Final = "fuzz.example.com"
AGGREGATED_GROUP: Final = "aggregated.example.com"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
ATTACKED_LABEL: Final = "fuzz.quorate.dev/extension"  # webhooks and policies see no other objects
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
ACCEPTED: Final = ("application/json", TABLE, "application/yaml")
NOWHERE: Final = "https://127.0.0.1:1/"
PATHS: Final = (
    ".spec.count",
    ".spec",
    ".metadata.creationTimestamp",
    ".status.conditions[-1:].type",
    ".spec['text']",
    ".spec.items[?(@.count>1)].text",
    ".spec.items[*]",
    ".spec.items[0,1].text",
    "{.spec.text}",
    ".spec..text",
    ".spec.items[99999999999999999999]",
    ".spec.items[::0]",
    ".spec.items[",
    ".spec.\u202e",
    ".x" * 5000,
    "",
)
RULES: Final = (
    "self.count > 0",
    "self == oldSelf",
    "self.items.all(a, self.items.all(b, a == b || a != b))",
    "self.missing.x",
    "self.items.map(a, a.text + a.text).size() < 9",
    "self.text.replace('', self.text) != ''",
    "self.text.matches('(a+)+$')",
    "!oldSelf.hasValue() || true",
    slow("self.text"),
    doubled(12).replace("bind(v0, self", "bind(v0, self.text"),
)
CONDITIONS: Final = (
    "true",
    "false",
    "object.data.text == 'x'",
    "object.missing.x",
    "request.userInfo.username.matches('a*')",
    slow("object.data.text"),
    doubled(12).replace("bind(v0, self", "bind(v0, object.data.text"),
    "size(object)",
    "1 +",
)
PATTERNS: Final = ("^a+$", "(a|a)*$", "(", "a{1000}{1000}", "")


def _mostly(usual: Any, others: Sequence[Any], rng: random.Random) -> Any:
    """Return the usual value, and sometimes another one: a definition with several of these is refused."""
    return usual if rng.random() < 0.85 else rng.choice(others)


def attack_extension(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    title, requests = rng.choice(
        (
            ("a definition", _definition_requests),
            ("a definition", _definition_requests),
            ("a webhook", _webhook_requests),
            ("an admission policy", _policy_requests),
            ("an APIService", _api_service_requests),
        )
    )
    return f"{title} {name}", requests(rng, name)


def _definition_requests(rng: random.Random, name: str) -> Iterator[Request]:
    plural = f"{name}s"
    definition = f"{DEFINITIONS}/{plural}.{GROUP}"
    yield _post(DEFINITIONS, f"{plural}.{GROUP}", _definition(rng, plural), rng, _mostly(0, (1, 2), rng))
    objects = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{plural}"
    for _ in range(2):
        yield Request("GET", definition)
        yield Request("GET", "/apis", accept=rng.choice(ACCEPTED))
        for number in range(2):
            yield _post(objects, f"{name}-{number}", {"spec": _spec(rng)}, rng)
        for version in ("v1", "v1beta1"):
            path = objects.replace("v1", version, 1)
            yield Request("GET", path, accept=rng.choice(ACCEPTED), may_be_missing=True)
        body = json.dumps({"spec": _spec(rng)}).encode()
        yield Request("PATCH", f"{objects}/{name}-0", body, MERGE, may_be_missing=True)
        changed = {"spec": {"versions": _definition(rng, plural)["spec"]["versions"]}}
        yield Request("PATCH", definition, json.dumps(changed).encode(), MERGE, may_be_missing=True)
    if rng.random() < 0.5:
        yield Request("DELETE", definition, may_be_missing=True)


def _definition(rng: random.Random, plural: str) -> Json:
    names = {"plural": plural, "kind": f"K{plural.replace('-', '')}"}
    versions = [_version(rng, "v1", True), *([_version(rng, "v1beta1", False)] if rng.random() < 0.5 else [])]
    client = (
        {"url": NOWHERE} if rng.random() < 0.5 else {"service": {"namespace": NAMESPACE, "name": "missing"}}
    )
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook} if rng.random() < 0.4 else {"strategy": "None"}
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": names,
        "versions": versions,
        "conversion": conversion,
    }
    return {"spec": spec}


def _version(rng: random.Random, name: str, storage: bool) -> Json:
    text: Json = {"type": "string", "pattern": _mostly("", PATTERNS, rng)}
    item = {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}
    list_type = _mostly("atomic", ("map", "set"), rng)
    items: Json = {"type": "array", "items": item, "x-kubernetes-list-type": list_type}
    if list_type == "map":
        items["x-kubernetes-list-map-keys"] = rng.choice((["text"], ["missing"], []))
        item["required"] = ["text"]
    count: Json = {"type": "integer", "minimum": _mostly(0, (10**30, "x"), rng)}
    count |= _mostly({}, ({"default": 1}, {"default": -1}, {"default": "x"}), rng)
    rules = [
        {
            "rule": rng.choice(RULES),
            **_mostly({}, ({"messageExpression": "self.text"}, {"fieldPath": ".x["}), rng),
        }
        for _ in range(rng.choice((0, 1, 1, 2)))
    ]
    spec = {
        "type": "object",
        "properties": {
            "text": text,
            "items": items,
            "count": count,
            "any": {"x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": rules,
    }
    columns = [
        {
            "name": f"c{at}",
            "type": rng.choice(("string", "integer", "date", "boolean")),
            "jsonPath": rng.choice(PATHS),
        }
        for at in range(rng.choice((0, 1, 4)))
    ]
    scale = {
        "specReplicasPath": ".spec.count",
        "statusReplicasPath": _mostly(".status.count", (".spec[0]",), rng),
    }
    return {
        "name": name,
        "served": rng.random() < 0.9,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "additionalPrinterColumns": columns,
        "subresources": rng.choice(({}, {"status": {}}, {"status": {}, "scale": scale})),
        "selectableFields": _mostly([], [[{"jsonPath": path}] for path in PATHS], rng),
    }  # fmt: skip


def _spec(rng: random.Random) -> Json:
    text = rng.choice(("x", "ab" * 150_000, rng.choice(BY_TYPE["string"])))
    items = [{"text": str(at), "count": at} for at in range(rng.choice((0, 2, 500)))]
    return {"text": text, "items": items, "count": rng.choice((1, 0, "x")), "any": rng.choice(ANYTHING)}


def _webhook_requests(rng: random.Random, name: str) -> Iterator[Request]:
    path = f"{ADMISSION}/{rng.choice(('mutating', 'validating'))}webhookconfigurations"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    webhook: Json = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": NOWHERE},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        "failurePolicy": rng.choice(("Fail", "Ignore")),
        "matchConditions": [{"name": "c", "expression": rng.choice(CONDITIONS)}],
    }
    webhook = mutate(webhook, ANY, rng, rng.choice((0, 1, 2)))
    webhook["objectSelector"] = {"matchLabels": {ATTACKED_LABEL: name}}
    yield _post(path, name, {"webhooks": [webhook]}, rng, 0)
    yield from _attacked_objects(rng, name)
    yield Request("DELETE", f"{path}/{name}", may_be_missing=True)


def _policy_requests(rng: random.Random, name: str) -> Iterator[Request]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    expression = rng.choice(("variables.v", *CONDITIONS))
    spec: Json = {
        "matchConditions": [{"name": "c", "expression": rng.choice(CONDITIONS)}],
        "variables": [{"name": "v", "expression": rng.choice(CONDITIONS)}],
        "validations": [{"expression": expression, "messageExpression": rng.choice(CONDITIONS)}]
        * rng.choice((1, 20)),
        "failurePolicy": rng.choice(("Fail", "Ignore")),
        **rng.choice(({}, {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}})),
    }
    spec = mutate(spec, ANY, rng, rng.choice((0, 1, 2)))
    selector = {"matchLabels": {ATTACKED_LABEL: name}}
    spec["matchConstraints"] = {"resourceRules": [rule], "objectSelector": selector}
    yield _post(f"{ADMISSION}/validatingadmissionpolicies", name, {"spec": spec}, rng, 0)
    bound = {"policyName": name, "validationActions": rng.choice((["Deny"], ["Warn"], ["Audit"])),
             "paramRef": {"name": "missing", "parameterNotFoundAction": "Allow"}}  # fmt: skip
    yield _post(f"{ADMISSION}/validatingadmissionpolicybindings", name, {"spec": bound}, rng)
    yield from _attacked_objects(rng, name)


def _attacked_objects(rng: random.Random, name: str) -> Iterator[Request]:
    labels = {ATTACKED_LABEL: name}
    for number, text in enumerate(("x", "ab" * 150_000)):
        body = {"metadata": {"labels": labels}, "data": {"text": text}}
        yield _post(MAPS, f"{name}-{number}", body, rng, 0)


def _api_service_requests(rng: random.Random, name: str) -> Iterator[Request]:
    spec: Json = {
        "group": AGGREGATED_GROUP,
        "version": name,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": NAMESPACE, "name": "missing", "port": rng.choice((443, 0, -1, 70_000))},
    }
    spec = mutate(spec, ANY, rng, rng.choice((0, 1, 2)))
    if not isinstance(spec.get("group"), str) or not spec["group"].endswith("example.com"):
        spec["group"] = AGGREGATED_GROUP  # no other group becomes unavailable
    yield _post(API_SERVICES, f"{name}.{AGGREGATED_GROUP}", {"spec": spec}, rng, 0)
    for path in (f"/apis/{AGGREGATED_GROUP}/{name}", f"/apis/{AGGREGATED_GROUP}/{name}/things", "/apis"):
        yield Request("GET", path, accept=rng.choice(ACCEPTED), may_be_missing=True)


def _post(path: str, name: str, body: Json, rng: random.Random, mutations: int | None = None) -> Request:
    """Return the request that creates an object, with some mutations."""
    count = rng.choice((0, 0, 1, 2)) if mutations is None else mutations
    metadata = {"name": name, **body.get("metadata", {})}
    mutated = mutate({**body, "metadata": metadata}, ANY, rng, count)
    return Request("POST", path, json.dumps(mutated).encode())
