"""The action enqueue and the webhooks agree on reservations of quota."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.gang.cache.from_objects import quota_amounts, quota_from_object
from quorate.gang.namespace_quota.ledger import GroupQuotaMinimum, PodQuotaUsage, QuotaLedger
from quorate.gang.namespace_quota.webhook_checks import PodGroupRequest, group_findings, pod_findings
from tests.gang import objects
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

ENQUEUE = settings_of({"actions": "enqueue", "tiers": [["gang"]]}, "design")
NO_ATTRIBUTES = ScopeAttributes()
NAMESPACE = "default"

cpus = st.integers(0, 6)


@st.composite
def worlds(draw: st.DrawFn) -> Json:
    """Draw waiting and admitted groups under one or two quotas, with enough nodes for all."""
    hard = draw(st.integers(0, 12))
    used = draw(st.integers(0, hard))
    quotas = [{"name": "rq", "hard": {"cpu": hard}, "used": {"cpu": used}}]
    if draw(st.booleans()):
        quotas.append(
            {"name": "more", "hard": {"requests.cpu": draw(st.integers(0, 12))}, "used": {"cpu": used}}
        )
    groups = [
        {"name": f"g{at}", "created": at, "minResources": {"cpu": cpu}, "phase": phase}
        for at, (cpu, phase) in enumerate(
            draw(st.lists(st.tuples(cpus, st.sampled_from(["Pending", "Inqueue"])), max_size=4))
        )
    ]
    return {"nodes": [{"name": "n", "cpu": 1000}], "quotas": quotas, "podGroups": groups}


class WebhookView:
    """The view of the webhook for pods; created pods count as used at once."""

    def __init__(self, given: Json, phases: Mapping[str, str]) -> None:
        self.given = given
        self.ledger = QuotaLedger()
        self.created: Counter[str] = Counter()  # cpus, by the name of the group
        for group in given["podGroups"]:
            minimum = quota_amounts(objects.pod_group(group).spec.min_resources or {})
            active = phases[group["name"]] == "Inqueue"
            self.ledger.set_group(
                Key(NAMESPACE, group["name"]), GroupQuotaMinimum(NO_ATTRIBUTES, minimum, active)
            )

    def quotas(self) -> list[Json]:
        total = sum(self.created.values())
        return [{**quota, "used": {"cpu": quota["used"]["cpu"] + total}} for quota in self.given["quotas"]]

    def create(self, group: str, cpu: int) -> bool:
        """Whether the webhook lets in a pod of ``group``; with no name it is a stranger."""
        usage = {"cpu": cpu * 1000}
        quotas = [quota_from_object(objects.quota(quota)) for quota in self.quotas()]
        own = self.ledger.claims(NAMESPACE).get(group)
        if list(pod_findings(usage, NO_ATTRIBUTES, own, quotas, self.ledger.reserved(NAMESPACE))):
            return False
        self.created[group] += cpu
        members = {"cpu": self.created[group] * 1000}
        self.ledger.set_pod(
            Key(NAMESPACE, f"pods of {group}"), PodQuotaUsage(group, NO_ATTRIBUTES, members, terminated=False)
        )
        return True


def admitted(given: Json) -> dict[str, str]:
    world = World(given, ENQUEUE, restarting=False)
    world.session()
    return {group["name"]: world.phase(group["name"]) for group in given["podGroups"]}


@given(world=worlds())
def test_the_webhook_accepts_every_group_that_enqueue_could_admit(world: Json) -> None:
    phases = admitted(world)
    quotas = [quota_from_object(objects.quota(quota)) for quota in world["quotas"]]
    for group in world["podGroups"]:
        if phases[group["name"]] == "Inqueue":
            new = PodGroupRequest(
                NO_ATTRIBUTES, quota_amounts(objects.pod_group(group).spec.min_resources or {})
            )
            assert list(group_findings("default", new, None, quotas, [])) == []


@given(world=worlds(), order=st.randoms())
def test_all_pods_of_admitted_groups_can_be_created(world: Json, order: Any) -> None:
    phases = admitted(world)
    webhook = WebhookView(world, phases)
    members = [
        group["name"]
        for group in world["podGroups"]
        for _ in range(group["minResources"]["cpu"])
        if phases[group["name"]] == "Inqueue"
    ]
    for name in order.sample(members, len(members)):
        assert webhook.create(name, 1), f"a member of {name} is refused"
    hard = min(quota["hard"].get("cpu", quota["hard"].get("requests.cpu")) for quota in world["quotas"])
    assert not members or world["quotas"][0]["used"]["cpu"] + sum(webhook.created.values()) <= hard


@given(world=worlds(), foreign_pods=st.lists(cpus, max_size=4))
def test_pods_that_the_webhook_accepts_cause_no_rollback(world: Json, foreign_pods: list[int]) -> None:
    before = admitted(world)
    webhook = WebhookView(world, before)
    for cpu in foreign_pods:
        webhook.create("", cpu)
    later = {
        **world,
        "quotas": webhook.quotas(),
        "podGroups": [{**group, "phase": before[group["name"]]} for group in world["podGroups"]],
    }
    after = admitted(later)
    assert {name for name, phase in before.items() if phase == "Inqueue"} <= {
        name for name, phase in after.items() if phase == "Inqueue"
    }
