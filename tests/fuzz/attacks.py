"""Attacks: the requests about one object, or about a few that belong together.

An attack is a function of the seed and its number alone, so that the two reproduce it.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.fuzz.extensions import attack_extension
from tests.fuzz.kinds import BY_KIND, KINDS, NAMESPACE, WEBHOOKS_LABEL, FuzzedKind
from tests.fuzz.large import FIRST_LARGE, large_object_requests
from tests.fuzz.mutations import FINALIZER, mutate
from tests.fuzz.requests import MERGE, Attack, Request
from tests.fuzz.schemas import ANY, FieldSchema, schema_of
from tests.fuzz.webhook_requests import webhook_request

Json = dict[str, Any]

DEEP_EVERY: Final = 700  # one attack in so many makes a deep tree of cohorts
DEPTH: Final = 1000
RINGS: Final = (2, 3, 50)


def attack(seed: int, number: int) -> Attack:
    if number >= FIRST_LARGE:
        title, requests = large_object_requests(number - FIRST_LARGE, f"z{seed}-{number}")
        return Attack(seed, number, title, tuple(requests))
    rng = random.Random(f"{seed} {number}")
    title, requests = _choose(rng, number)(rng, f"z{seed}-{number}")
    return Attack(seed, number, title, tuple(requests))


Scenario = Callable[[random.Random, str], tuple[str, Iterator[Request]]]


def _choose(rng: random.Random, number: int) -> Scenario:
    if number % DEEP_EVERY == DEEP_EVERY - 1:
        return _deep_cohorts
    scenarios: dict[Scenario, int] = {
        _life_of_an_object: 80,
        _webhook_requests: 10,
        _cohort_ring: 2,
        _queue_ring: 1,
        _mutual_owners: 2,
        _group_of_pods: 3,
        _twins: 2,
        attack_extension: 8,
    }
    return rng.choices(list(scenarios), list(scenarios.values()))[0]


# Scenarios.


def _life_of_an_object(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    kind = rng.choices(KINDS, [each.weight for each in KINDS])[0]
    return f"{kind.resource.kind} {name}", _life(kind, rng, _long_name(kind, rng, name))


def _life(kind: FuzzedKind, rng: random.Random, name: str) -> Iterator[Request]:
    schema = schema_of(kind.resource.api_version, kind.resource.kind)
    body = _object(kind, rng, name, rng.choice((0, 1, 1, 2, 2, 3, 6)))
    yield _create(kind, body, rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if kind.status is not None and rng.random() < 0.6:
            below = schema.properties.get("status", ANY)
            status = mutate(
                {"x": kind.status(rng)}, FieldSchema("object", {"x": below}), rng, rng.choice((0, 1, 2))
            )
            yield _patch(kind, name, {"status": status.get("x")}, kind.has_status_subresource)
        else:
            changed = mutate(_object(kind, rng, name, 0), schema, rng, rng.choice((1, 2, 3)))
            changed.pop("status", None)
            yield _patch(kind, name, changed, False)
    if rng.random() < 0.3:
        yield Request("DELETE", kind.resource.path(_home(kind), name), may_be_missing=True)


def _webhook_requests(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    kind = rng.choices(KINDS, [each.weight for each in KINDS])[0]
    body = _object(kind, rng, name, rng.choice((0, 1, 2, 4)))
    old = _object(kind, rng, name, 1) if rng.random() < 0.4 else None
    path, sent = webhook_request(rng, kind.resource, body, old)
    return f"review of {kind.resource.kind}", iter([Request("POST", path, sent, target="webhook")])


def _deep_cohorts(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    """A chain of cohorts with a cluster queue at the bottom."""
    return f"{DEPTH} levels of cohorts", _chain(
        rng, name, [f"{name}-{level}" for level in range(DEPTH)], False
    )


def _cohort_ring(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    count = rng.choice(RINGS)
    return f"a ring of {count} cohorts", _chain(rng, name, [f"{name}-{at}" for at in range(count)], True)


def _chain(rng: random.Random, name: str, cohorts: list[str], closed: bool) -> Iterator[Request]:
    kind = BY_KIND["kueue.x-k8s.io/v1beta2", "Cohort"]
    queue_kind = BY_KIND["kueue.x-k8s.io/v1beta2", "ClusterQueue"]
    queue = _object(queue_kind, rng, name, 0)
    queue["spec"]["cohortName"] = cohorts[0]
    yield _create(queue_kind, queue, rng)
    for at, cohort in enumerate(cohorts):
        body = _object(kind, rng, cohort, 0)
        last = at == len(cohorts) - 1
        if last and not closed:
            del body["spec"]["parentName"]
        else:
            body["spec"]["parentName"] = cohorts[(at + 1) % len(cohorts)]
        if rng.random() < 0.9:
            del body["spec"]["resourceGroups"]
        yield _create(kind, body, rng)


def _queue_ring(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    kind = BY_KIND["scheduling.volcano.sh/v1beta1", "Queue"]
    names = [f"{name}-{at}" for at in range(3)]

    def requests() -> Iterator[Request]:
        for at, each in enumerate(names):
            body = _object(kind, rng, each, 0)
            body["spec"]["parent"] = names[at - 1]
            yield _create(kind, body, rng)

    return "a ring of queues", requests()


def _mutual_owners(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    kinds = [BY_KIND["batch/v1", "Job"], BY_KIND["kueue.x-k8s.io/v1beta2", "Workload"], BY_KIND["v1", "Pod"]]
    first, second = rng.choice(kinds), rng.choice(kinds)

    def requests() -> Iterator[Request]:
        for kind, own, other, owner in ((first, "a", "b", second), (second, "b", "a", first)):
            body = _object(kind, rng, f"{name}-{own}", 0)
            body["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": owner.resource.api_version,
                    "kind": owner.resource.kind,
                    "name": f"{name}-{other}",
                    "uid": f"{name}-{other}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ]
            body["metadata"]["finalizers"] = [f"{FINALIZER}held"]
            yield _create(kind, body, rng)

    return f"{first.resource.kind} and {second.resource.kind} own each other", requests()


def _group_of_pods(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    """Pods of one group that differ in everything that they should agree about."""
    kind = BY_KIND["v1", "Pod"]

    def requests() -> Iterator[Request]:
        for at in range(rng.choice((2, 5, 12))):
            body = _object(kind, rng, f"{name}-{at}", rng.choice((0, 0, 1)))
            metadata = body["metadata"]
            metadata.setdefault("labels", {})["kueue.x-k8s.io/pod-group-name"] = name
            metadata["labels"]["kueue.x-k8s.io/queue-name"] = rng.choice(("queue", "queue", "other"))
            total = rng.choice(("2", "3", "0", "x"))
            metadata.setdefault("annotations", {})["kueue.x-k8s.io/pod-group-total-count"] = total
            metadata["annotations"]["scheduling.k8s.io/group-name"] = name
            yield _create(kind, body, rng)

    return "a group of pods", requests()


def _twins(rng: random.Random, name: str) -> tuple[str, Iterator[Request]]:
    """Delete and create one object again and again, with other content and the same name."""
    kind = rng.choices(KINDS, [each.weight for each in KINDS])[0]

    def requests() -> Iterator[Request]:
        for _ in range(4):
            yield _create(kind, _object(kind, rng, name, rng.choice((0, 1, 2))), rng)
            yield Request("DELETE", kind.resource.path(_home(kind), name), may_be_missing=True)

    return f"{kind.resource.kind} again and again", requests()


# Objects and requests.


def _object(kind: FuzzedKind, rng: random.Random, name: str, mutations: int) -> Json:
    body = kind.build(rng)
    head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
    metadata = {"name": name, **body.pop("metadata", {})}
    if kind.resource.namespaced:
        metadata["namespace"] = NAMESPACE
    if rng.random() < 0.4:
        metadata["labels"] = {**metadata.get("labels", {}), WEBHOOKS_LABEL: "true"}
    schema = schema_of(kind.resource.api_version, kind.resource.kind)
    return mutate({**head, "metadata": metadata, **body}, schema, rng, mutations)


def _long_name(kind: FuzzedKind, rng: random.Random, name: str) -> str:
    if rng.random() > 0.1 or kind.resource.kind in ("Namespace", "Queue"):
        return name
    most = rng.choice((63, 253))
    return (name + "-" + "n" * most)[:most]


def _home(kind: FuzzedKind) -> str:
    return NAMESPACE if kind.resource.namespaced else ""


def _create(kind: FuzzedKind, body: Json, rng: random.Random) -> Request:
    return Request("POST", kind.resource.path(_home(kind)), _encoded(body, rng))


def _patch(kind: FuzzedKind, name: str, body: Json, status: bool) -> Request:
    path = kind.resource.path(_home(kind), name, "status" if status else "")
    return Request("PATCH", path, json.dumps(body).encode(), MERGE, may_be_missing=True)


def _encoded(body: Json, rng: random.Random) -> bytes:
    """Return ``body`` as JSON, sometimes with a doubled field."""
    text = json.dumps(body)
    if rng.random() < 0.02:
        text = text[:-1] + ', "spec": ' + json.dumps(body.get("spec")) + "}"
    return text.encode()
