"""The webhooks that are registered, compiled once for each revision of their configuration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from quorate.local.server.admission.webhooks.match_conditions import Condition, compile_condition
from quorate.local.server.storage.store import Entry, Key, Store

Json = dict[str, Any]

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
REVIEW_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests are meant; ``*`` stands for everything."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str

    def covers(
        self, operation: str, group: str, version: str, plural: str, subresource: str, namespaced: bool
    ) -> bool:
        return (
            not self.operations.isdisjoint((operation, "*"))
            and not self.groups.isdisjoint((group, "*"))
            and not self.versions.isdisjoint((version, "*"))
            and not self.resources.isdisjoint(_spellings(plural, subresource))
            and (self.scope == "*" or (self.scope == "Namespaced") == namespaced)
        )


def _spellings(plural: str, subresource: str) -> tuple[str, ...]:
    """The ways in which a rule may name a resource or a subresource."""
    if not subresource:
        return plural, "*", "*/*", f"{plural}/*"
    return f"{plural}/{subresource}", f"*/{subresource}", f"{plural}/*", "*/*"


@dataclass(frozen=True, slots=True, eq=False)
class Webhook:
    name: str
    client: Json
    """where it is: a clientConfig"""
    rules: tuple[Rule, ...]
    exact: bool
    """only the versions that the rules name, instead of every version of the same kind"""
    may_fail: bool
    """a request goes on when the webhook cannot be asked"""
    namespaces: Json
    objects: Json
    conditions: tuple[Condition, ...]
    timeout_s: int
    review_version: str
    called_again: bool
    """when another webhook has changed the object since"""


class Registered:
    """The webhooks of each sort, in the order in which they are asked: by configuration, then as listed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._compiled: dict[Key, tuple[int, tuple[Webhook, ...]]] = {}

    def of(self, resource: str) -> Sequence[Webhook]:
        """``resource``: ``MUTATING`` or ``VALIDATING``."""
        entries = self._store.entries(resource)
        return [webhook for entry in entries for webhook in self._webhooks(entry)] if entries else ()

    def _webhooks(self, entry: Entry) -> Iterable[Webhook]:
        revision, webhooks = self._compiled.get(entry.key, (0, ()))
        if revision != entry.revision:
            webhooks = tuple(_webhook(given) for given in entry.decode().get("webhooks", ()))
            self._compiled[entry.key] = (entry.revision, webhooks)
        return webhooks


def _webhook(given: Json) -> Webhook:
    return Webhook(
        name=given["name"],
        client=given["clientConfig"],
        rules=tuple(_rule(rule) for rule in given.get("rules", ())),
        exact=given["matchPolicy"] == "Exact",
        may_fail=given["failurePolicy"] == "Ignore",
        namespaces=given["namespaceSelector"],
        objects=given["objectSelector"],
        conditions=tuple(
            compile_condition(condition["name"], condition["expression"])
            for condition in given.get("matchConditions", ())
        ),
        timeout_s=given["timeoutSeconds"],
        review_version=next(v for v in given["admissionReviewVersions"] if v in REVIEW_VERSIONS),
        called_again=given.get("reinvocationPolicy") == "IfNeeded",
    )


def _rule(given: Json) -> Rule:
    return Rule(
        frozenset(given["operations"]),
        frozenset(given["apiGroups"]),
        frozenset(given["apiVersions"]),
        frozenset(given["resources"]),
        given["scope"],
    )
