"""Lists of explanations: the same states, codes and sentences as the explanations, in short slices."""

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from time import thread_time
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.started_pod import FailedCreation, StartedPod
from quorate.api.explanation import ExplanationSummary, ExplanationSummaryList, summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.gang.explanation import waiting_group
from quorate.kube.errors import Unreachable
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.explanation_lists import (
    ExplanationLists,
    Page,
    encoded_list,
    explain_with_pods,
    pod_group_summaries,
    workload_summaries,
)
from quorate.observe.view import View
from quorate.queueing.conditions import is_admitted, is_finished
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.pods import failed_creation
from quorate.queueing.explanation.scope import UNLIMITED_SCOPE, Scope
from quorate.queueing.explanation.workload import NOT_READ, Started, explain_workload
from quorate.queueing.scheduling.cycle import AdmissionCycle
from tests.observe.test_visibility import NOW, a_silent_informer, a_state, a_workload
from tests.queueing.notation import Json
from tests.queueing.test_laws import a_world_at_work, worlds
from tests.queueing.world import World

NAMESPACE = "default"
PAUSE_S = 0.05  # of processor time, for which nothing else runs, at most
SINCE = "2026-01-01T00:00:00Z"


class Objects:
    """Pods and pod groups that are read from memory."""

    def __init__(
        self,
        pods: Sequence[StartedPod] | None = (),
        groups: Sequence[PodGroup] = (),
        failures: Mapping[Uid, FailedCreation] = MappingProxyType({}),
    ) -> None:
        self._pods, self._groups, self._failures = pods, groups, failures

    async def pods(self, namespace: str, label_selector: str) -> Sequence[StartedPod] | None:
        return self._pods

    async def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return self._groups

    async def native_pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return ()

    async def failed_creations(self, namespace: str) -> Mapping[Uid, FailedCreation]:
        return self._failures


async def listed(summaries: AsyncIterator[ExplanationSummary]) -> list[ExplanationSummary]:
    return [summary async for summary in summaries]


def waiting(reason: str) -> Json:
    return {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": reason}}}]}


PODS: tuple[Json, ...] = (
    {"status": {"phase": "Running"}},
    {"status": {"phase": "Running", **waiting("CrashLoopBackOff")}},
    {"status": {"phase": "Succeeded"}},
    {"status": {"phase": "Failed"}},
    {"spec": {"schedulingGates": [{"name": "lab.example/data"}]}},
    {},
    {"spec": {"nodeName": "n"}},
    {"spec": {"nodeName": "n"}, "status": waiting("ContainerCreating")},
    {"spec": {"nodeName": "n"}, "status": waiting("ImagePullBackOff")},
)


@st.composite
def pods_of(draw: st.DrawFn, workload: Workload) -> list[StartedPod]:
    """Return pods that the workload may have: marked with its name, or controlled by one of its owners."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "controller": True}
    uids = [each.uid for each in workload.metadata.owner_references]
    pods = []
    for index, state in enumerate(draw(st.lists(st.sampled_from(PODS), max_size=4))):
        name = workload.metadata.name
        metadata: Json = {"namespace": NAMESPACE, "name": f"{name}-{index}", "creationTimestamp": SINCE}
        if draw(st.booleans()) and uids:
            metadata["ownerReferences"] = [{**owner, "uid": draw(st.sampled_from(uids))}]
        else:
            metadata["annotations"] = {"kueue.x-k8s.io/workload": name}
        pods.append(codec.convert(StartedPod, {"metadata": {**metadata, "uid": f"{name}-{index}"}, **state}))
    return pods


def test_a_list_has_no_names_of_workloads_that_the_caller_may_not_read() -> None:
    quota = {"quota": [{"one": {"cpu": 4}}]}
    world = World(
        {
            "config": {"waitForPodsReady": {"blockAdmission": True, "blockAdmissionScope": "SameFlavors"}},
            "flavors": ["one"],
            "clusterQueues": {"first": quota, "second": quota},
            "workloads": [
                {"name": "unready", "queue": "first", "requests": {"cpu": 1}},
                {"name": "waits", "queue": "second", "created": 1, "requests": {"cpu": 1}},
            ],
        }
    )
    for _ in range(2):
        world.carry_out(world.admission_cycle.run(world.now).decisions)
        world.settle()
    workloads = {workload.metadata.key: workload for workload in world.workloads.values()}

    def message(scope: Scope) -> str:
        keys = [Key(NAMESPACE, "waits")]
        summaries = workload_summaries(world.state, keys, workloads.get, Objects(), scope)
        (summary,) = asyncio.run(listed(summaries))
        assert summary.code == "AwaitingPodsReady"
        return summary.message + str(summary.enough)

    assert "default/unready" in message(UNLIMITED_SCOPE)
    assert "unready" not in message(Scope(frozenset(), cluster_queues=False))


def test_a_list_that_fails_after_its_callers_have_left_is_no_error_of_the_process() -> None:
    async def story() -> list[Json]:
        unhandled: list[Json] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        answered = asyncio.Event()

        class Refusing(Objects):
            async def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
                await answered.wait()
                raise Unreachable("GET /podgroups", "https://cluster", "no answer")

        lists = ExplanationLists(Refusing(), lambda: NOW)
        caller = asyncio.create_task(lists.pod_group_list("", Page()))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})
        answered.set()
        for _ in range(5):
            await asyncio.sleep(0)
        return unhandled

    unhandled = asyncio.run(story())
    gc.collect()  # a task says that its exception was not retrieved when it is freed
    assert unhandled == []


PHASES = ("", "Pending", "Inqueue", "Running", "Unknown", "Completed")
MESSAGES = (
    "",
    "cluster: cpu: need 2, have 1 now",
    "cluster: cpu: need 9, have 1 now and 8 at most, so it can never fit",
)


@st.composite
def groups_of(draw: st.DrawFn, workload: Workload) -> list[PodGroup]:
    groups = []
    for index in range(draw(st.integers(0, 2))):
        metadata: Json = {"namespace": NAMESPACE, "name": f"{workload.metadata.name}-{index}"}
        owners = [codec.to_builtins(owner) for owner in workload.metadata.owner_references]
        if draw(st.booleans()):
            metadata["ownerReferences"] = owners
        status: Json = {"phase": draw(st.sampled_from(PHASES)), "running": draw(st.integers(0, 2))}
        if message := draw(st.sampled_from(MESSAGES)):
            condition = {
                "type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": message,
            }  # fmt: skip
            status["conditions"] = [condition]
        body = {"metadata": metadata, "spec": {"minMember": draw(st.integers(1, 2))}, "status": status}
        groups.append(codec.convert(PodGroup, body))
    return groups


@st.composite
def failures_of(draw: st.DrawFn, *workloads: Workload) -> dict[Uid, FailedCreation]:
    owners = [owner.uid for workload in workloads for owner in workload.metadata.owner_references]
    failed = draw(st.sets(st.sampled_from(owners))) if owners else set()
    return {uid: FailedCreation(message=f"pods of {uid} are forbidden", at=at_epoch(NOW)) for uid in failed}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(worlds(), st.data())
def test_a_list_says_of_every_workload_what_its_explanation_says(given_: Json, data: st.DataObject) -> None:
    world = a_world_at_work(given_)
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    world.settle()
    workloads = {workload.metadata.key: workload for workload in world.workloads.values()}
    pods = [pod for workload in workloads.values() for pod in data.draw(pods_of(workload))]
    groups = [group for workload in workloads.values() for group in data.draw(groups_of(workload))]
    failures = data.draw(failures_of(*workloads.values()))
    reader = Objects(data.draw(st.sampled_from((pods, pods, None))), groups, failures)
    summaries = asyncio.run(
        listed(workload_summaries(world.state, sorted(workloads), workloads.get, reader, UNLIMITED_SCOPE))
    )

    assert [summary.metadata.key for summary in summaries] == sorted(workloads)
    for summary in summaries:
        workload = workloads[summary.metadata.key]
        has_pods = is_admitted(workload) and not is_finished(workload)
        failure = failed_creation(workload.metadata, failures)
        started = Started(asyncio.run(reader.pods("", "")), waiting_group(workload, groups), failure)
        explanation = explain_workload(
            world.state,
            workload,
            run(pending_facts(world.state, workload.metadata.key)),
            started if has_pods else NOT_READ,
        )
        event(f"{explanation.state} {explanation.code}")
        assert summary == summary_of(explanation, workload.metadata)


@settings(deadline=None)
@given(st.data())
def test_a_list_says_of_every_pod_group_what_its_explanation_says(data: st.DataObject) -> None:
    workload = a_workload("w", "a", 0, 10)
    groups = data.draw(groups_of(workload))
    pods = data.draw(pods_of(workload))
    members = [
        msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata, annotations={"scheduling.k8s.io/group-name": data.draw(st.sampled_from("01"))}
            ),
        )
        for pod in pods
    ]
    named = [
        msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, name=str(index)))
        for index, group in enumerate(groups)
    ]
    failures = data.draw(failures_of(workload))
    summaries = asyncio.run(listed(pod_group_summaries(Objects(members, failures=failures), named)))
    for summary, group in zip(summaries, named, strict=True):
        explanation = explain_with_pods(group, None, members, failures)
        event(f"{explanation.state} {explanation.code}")
        assert (summary.state, summary.code, summary.message) == (
            explanation.state, explanation.code, explanation.message,
        )  # fmt: skip


@given(st.sets(st.text("ab", min_size=1, max_size=3)), st.integers(1, 4), st.text("ab", max_size=3))
def test_pages_follow_each_other_without_gaps(names: set[str], limit: int, first: str) -> None:
    keys = sorted(Key(NAMESPACE, name) for name in names)
    after, found = Key(NAMESPACE, first), [key for key in keys if key.name <= first]
    while True:
        page, token = Page(limit, after).of(keys)
        found += page
        if not token:
            break
        assert len(page) == limit
        after = Key(*token.split("/"))
    assert found == keys
    assert Page().of(keys) == (keys, "")


@pytest.mark.slow
def test_a_list_of_many_workloads_leaves_the_process_to_others_every_few_milliseconds() -> None:
    state, informer = a_state(), a_silent_informer()
    names = [f"w{number:05}" for number in range(30_000)]
    for name in names:
        state.put_workload(a_workload(name, "a", 0, 20), NOW)
    AdmissionCycle(state).run(NOW)
    view = View(state, informer, CustomLabels())
    keys = sorted(state.ledger.entries)

    async def story() -> tuple[bytes, float]:
        turns = [thread_time()]

        async def count() -> None:
            while True:
                await asyncio.sleep(0)
                turns.append(thread_time())

        counting = asyncio.create_task(count())
        summaries = workload_summaries(state, keys, view.workload, Objects(), UNLIMITED_SCOPE)
        body = await encoded_list(summaries)
        counting.cancel()
        return body, max(after - before for before, after in pairwise(turns))

    gc.freeze()  # a collection costs as much as the objects of all other tests
    body, longest_s = asyncio.run(story())
    items: Any = codec.decode(ExplanationSummaryList, body).items
    assert len(items) == len(keys) > len(names)
    assert longest_s < PAUSE_S
