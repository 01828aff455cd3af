"""Each reason of a gang has its numbers in fields, and they are those of its sentence."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import get_args

import pytest

from quorate.api import codec
from quorate.api.explanation import Holder, Reason
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.gang import pending_reasons as r
from quorate.gang.explanation import unschedulable
from quorate.gang.remedies import group_facts
from quorate.gang.shortage import Shortage, no_fit_message
from quorate.gang.topology_reasons import HyperNodesTooSmall, NetworkTopologyUnsatisfied, NoSuchTier
from quorate.gang.typed_reasons import reasons_of
from quorate.placement.diagnosis import Diagnosis, FilteredNodes, InsufficientResource
from tests.gang.enqueue_worlds import group, pod, world
from tests.gang.test_played_remedies import facts_of

SHORT = (Shortage("cpu", 13_000, 7_000, 11_000), Shortage("memory", 17 << 30, 5 << 30, 19 << 30))
LACK = InsufficientResource("cpu", nodes=23, need=13_000, at_most=11_000)
REFUSED = Diagnosis(29, (FilteredNodes("node(s) had untolerated taint {a: b}", 6),), (LACK,), 0)
CAUSE = r.Cause(no_fit_message(REFUSED), (REFUSED,))
SHARE = r.QueueQuotaExceeded("q", SHORT[:1])
OF_SHARE = r.Cause(r.no_share_message(SHARE), share=SHARE)
OPENS, CLOSES = 1_767_225_661.0, 1_767_229_322.0
ROOM = r.NotEnoughNodes(members=31, fitting=12, resource="cpu", needed=13_000, best=7_000, nodes=29)
CASES: tuple[r.PendingReason, ...] = (
    r.NotEnoughResources(SHORT),
    ROOM,
    r.QueueQuotaExceeded("q", SHORT),
    r.QueueQuotaExceeded("q", ()),
    r.InvalidQueueHierarchy("q", "has no parent"),
    r.NamespaceQuotaExceeded("rq", SHORT),
    r.QueueNotFound("q"),
    r.QueueNotOpen("q"),
    r.QueuePodGroupLimit("q", 37, 36),
    r.WorkloadNotAdmitted(),
    r.BeyondAdmission(41),
    r.InqueueTimeout(0, 12, 31),
    r.NotEnoughTasks(12, 31),
    r.NotEnoughPodsOfTask("w", 12, 31),
    r.NotEnoughSubGroups("p", 12, 31, 1),
    NetworkTopologyUnsatisfied("tier", 31, 1, "h", 12),
    HyperNodesTooSmall("tier", "cpu", 13_000, 1, "h", 11_000),
    NoSuchTier("tier"),
    r.GangUnschedulable(19, 31, CAUSE),
    r.GangUnschedulable(19, 31, OF_SHARE),
    r.FurtherMembersWait(31, CAUSE),
    r.ReservedWindow("night", OPENS, CLOSES, 29, 19, 31),
    r.AwaitsEvictions(29, 41),
    r.ReservedForEarlierGroup(Key("ns", "a"), CLOSES, SHORT[1:], True),
    r.ReservedForEarlierGroup(Key("other", "a"), None, (), False),
    r.AwaitsPlannedStart(ROOM, CLOSES),
    r.AwaitsUnplannedStart(ROOM, r.NotPlanned.HELD_BY_OTHERS),
    r.AwaitsVictimSearch(r.GangUnschedulable(1, 2, r.Cause("no node")), 1, 3),
    r.EndsTooLate(CLOSES),
)
# The amounts of one resource can never fit, and messages name sixteen resources.
MANY = tuple(Shortage(f"example.com/{at:02}", 1, 0, 0 if at == 17 else 1) for at in range(18))
NEVER: tuple[r.PendingReason, ...] = (
    r.NotEnoughResources(MANY),
    replace(ROOM, never_fits=True),
    r.QueueQuotaExceeded("q", MANY),
    r.NamespaceQuotaExceeded("rq", MANY),
    r.QueuePodGroupLimit("q", 0, 0),
    NetworkTopologyUnsatisfied("tier", 31, 1, "h", 12, never_fits=True),
    HyperNodesTooSmall("tier", "cpu", 13_000, 1, "", 0),
    r.GangUnschedulable(19, 31, CAUSE, never_fits=True),
    r.GangUnschedulable(19, 31, replace(OF_SHARE, exceeds_capability=True)),
)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
NUMBER = re.compile(r"(?<![\w.])\d+(?:m|Mi|Gi)?(?![\w.])")


def numbers_of(reason: Reason) -> Iterator[str]:
    yield from filter(None, (reason.needed, reason.free, reason.short_by, reason.at_most))
    if (pods := reason.on_nodes) is not None:
        yield from map(str, (pods.requested, pods.fitting, pods.requested - pods.fitting, pods.nodes))
        yield from (str(each.nodes) for each in pods.rejected)


def moments_of(reason: Reason) -> Iterator[datetime]:
    yield from (moment for moment in (reason.starts_at, reason.until) if moment is not None)


def test_every_reason_has_a_case() -> None:
    assert {type(case) for case in CASES} == set(get_args(r.PendingReason))


@pytest.mark.parametrize("reason", CASES + NEVER, ids=lambda reason: type(reason).__name__)
def test_a_list_and_an_explanation_agree_on_what_can_never_start(reason: r.PendingReason) -> None:
    """A list has the message of the condition, and an explanation the fields of the reason."""
    assert r.can_never_fit(reason) or reason not in NEVER
    condition = {"type": "Unschedulable", "status": "True", "reason": reason.reason, "message": str(reason)}
    waiting = {"metadata": {"name": "g"}, "spec": {}, "status": {"conditions": [condition]}}
    stored = unschedulable(codec.convert(PodGroup, waiting))
    assert stored is not None
    assert {part.needs_change for part in reasons_of(reason, "ns")} == {stored.needs_change}


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: type(reason).__name__)
def test_the_numbers_of_the_sentence_are_typed(reason: r.PendingReason) -> None:
    found = reasons_of(reason, "ns")
    text = str(reason)
    assert {each.code for each in found} == {reason.reason}
    assert all(each.text in text or each.text.partition(": ")[2] in text for each in found)
    typed = {number for each in found for number in numbers_of(each)}
    written = set(NUMBER.findall(MOMENT.sub("", text).replace("0/", ""))) - {"0", "1"}
    assert written <= typed
    moments = {f"{moment:%Y-%m-%d %H:%M:%S}" for each in found for moment in moments_of(each)}
    assert moments == set(MOMENT.findall(text))


@pytest.mark.parametrize("reason", CASES, ids=lambda reason: type(reason).__name__)
def test_what_is_needed_is_what_is_free_and_what_is_short(reason: r.PendingReason) -> None:
    for each in reasons_of(reason, "ns"):
        if each.short_by and each.resource != "memory":
            needed, free, short = (int(number) for number in (each.needed, each.free, each.short_by))
            assert needed == free + short


def test_an_earlier_group_of_another_namespace_is_not_named() -> None:
    (reason,) = reasons_of(r.ReservedForEarlierGroup(Key("secret", "a"), None, (), False), "ns")
    assert reason.object is not None
    assert (reason.object.name, reason.object.namespace) == ("", "")


def test_the_groups_that_use_the_share_are_named_in_their_own_namespace() -> None:
    here = world(
        {
            "queues": [{"name": "q", "capability": {"cpu": 3}}],
            "podGroups": [
                group("waits", "2", queue="q"),
                group("mine", "1", queue="q", phase="Running"),
                group("theirs", "1", queue="q", phase="Running", namespace="secret"),
            ],
            "pods": [
                {**pod("mine"), "node": "n1", "phase": "Running"},
                {**pod("theirs"), "node": "n1", "phase": "Running", "namespace": "secret"},
            ],
        },
        "capacity",
    )
    (reason,) = facts_of(here, "waits").reasons
    assert reason.held_by == (Holder(pod_group="default/mine", amount="1"), Holder(amount="1"))


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        pytest.param(
            {"annotations": {
                "scheduling.volcano.sh/requeue-not-before": "1970-01-01T00:20:00Z",
                "scheduling.volcano.sh/requeue-attempts": "2",
            }},
            "BackingOff", "it was rolled back 2 times, and is not tried before 00:20:00 UTC", id="back-off",
        ),
        pytest.param(
            {}, "EarlierPodGroupWaits",
            "pod group first waits, and queue q is first in, first out (dequeueStrategy fifo)", id="fifo",
        ),
    ],
)  # fmt: skip
def test_a_group_that_no_session_evaluates_says_why(given: dict[str, object], code: str, text: str) -> None:
    groups = [group("waits", "1", queue="q", created=2, **given)]
    if not given:
        groups.append(group("first", "9", queue="q", created=1))
    here = world({"queues": [{"name": "q", "dequeueStrategy": "fifo"}], "podGroups": groups})
    (reason,) = facts_of(here, "waits").reasons
    assert (reason.code, reason.text) == (code, text)


def test_a_model_is_as_before_after_the_search() -> None:
    here = world({
        "queues": [{"name": "q", "capability": {"cpu": 1}, "maxPodGroups": 0}],
        "podGroups": [group("waits", "9", queue="q", minMember=3)],
    })  # fmt: skip
    model, of = here.fresh_model(), here.groups[Key("default", "waits")]
    before = dict(model.queues), len(model.cluster.nodes), model.gangs[of.metadata.key].min_member
    found = [None for _ in group_facts(model, of, here.settings, here.now)]
    assert len(found) > 3
    assert (dict(model.queues), len(model.cluster.nodes), model.gangs[of.metadata.key].min_member) == before
