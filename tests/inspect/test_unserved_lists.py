"""Lists without served explanations: of each object the state and the code of ``explain``."""

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.kueue import Workload
from quorate.inspect.connection import Connection
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.summaries import summaries
from quorate.inspect.explain.targets import OfObject, OfWorkload
from quorate.inspect.status.cluster import read_status
from tests.kube.fake_server import Answer, FakeServer, Request

Json = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
KUEUE, VOLCANO = "kueue.x-k8s.io/v1beta2", "scheduling.volcano.sh/v1beta1"
SERVED = {  # by group and version: kinds that discovery names
    KUEUE: ("clusterqueues", "localqueues", "resourceflavors", "workloads"),
    VOLCANO: ("podgroups", "queues"),
}


def a_server(objects: Mapping[str, list[Json]]) -> FakeServer:
    """Return a cluster with ``objects`` by plural, which serves no explanations."""

    def answer(request: Request) -> Answer:
        version = request.path.removeprefix("/apis/")
        if version in SERVED:
            resources = [{"name": plural, "kind": plural} for plural in SERVED[version]]
            return Answer(body={"resources": resources})
        parts = request.path.split("/")
        if "explanations" in parts or "explanation" in parts or "configmaps" in parts:
            return Answer(404)
        if parts[-1] in objects or parts[-2] not in objects:
            return Answer(body={"metadata": {"resourceVersion": "9"}, "items": objects.get(parts[-1], [])})
        stored = [found for found in objects[parts[-2]] if found["metadata"]["name"] == parts[-1]]
        return Answer(body=stored[0]) if stored else Answer(404)

    return FakeServer(answer)


def named(name: str, namespace: str = "") -> Json:
    about = {"name": name, "uid": f"{name}-uid", "resourceVersion": "1", "creationTimestamp": CREATED}
    return {**about, **({"namespace": namespace} if namespace else {})}


def told(type_: str, reason: str, message: str) -> Json:
    return {
        "type": type_, "status": "False" if type_ == "QuotaReserved" else "True", "reason": reason,
        "message": message, "lastTransitionTime": CREATED,
    }  # fmt: skip


REFUSED = told("QuotaReserved", "Pending", "couldn't assign flavors to pod set main: insufficient quota")
UNSCHEDULABLE = told("Unschedulable", "NotEnoughResources", "3/3 tasks in gang unschedulable")


@st.composite
def queued_worlds(draw: st.DrawFn) -> dict[str, list[Json]]:
    """Return cluster queues with workloads that the controllers of Kueue have judged, or not yet."""
    queues = [
        {
            "metadata": named(name),
            "spec": {
                "namespaceSelector": {},
                "queueingStrategy": draw(st.sampled_from(("StrictFIFO", "BestEffortFIFO"))),
                "stopPolicy": draw(st.sampled_from(("None", "None", "Hold"))),
                "cohortName": draw(st.sampled_from(("", "lab"))),
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
                    }
                ],
            },
        }
        for name in ("a", "b")
    ]
    workloads = []
    for number in range(draw(st.integers(1, 4))):
        requests = {"cpu": draw(st.sampled_from(("1", "4", "6", "9")))}
        template = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
        queue = draw(st.sampled_from(("a", "b", "missing")))
        status: Json = {"conditions": [REFUSED]} if draw(st.booleans()) else {}
        if requests["cpu"] == "4" and queue != "missing" and draw(st.booleans()):
            assigned = {"name": "main", "flavors": {"cpu": "f"}, "resourceUsage": requests, "count": 1}
            conditions = [told("QuotaReserved", "QuotaReserved", ""), told("Admitted", "Admitted", "")]
            status = {
                "admission": {"clusterQueue": queue, "podSetAssignments": [assigned]},
                "conditions": [{**condition, "status": "True"} for condition in conditions],
            }
        spec = {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]}
        workloads.append({"metadata": named(f"w{number}", "team"), "spec": spec, "status": status})
    return {
        "namespaces": [{"metadata": named("team")}],
        "resourceflavors": [{"metadata": named("f"), "spec": {}}],
        "clusterqueues": queues,
        "localqueues": [
            {"metadata": named(name, "team"), "spec": {"clusterQueue": name}} for name in ("a", "b")
        ],
        "workloads": workloads,
    }


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=20)
@given(queued_worlds())
def test_the_list_says_of_each_workload_what_explain_says(objects: dict[str, list[Json]]) -> None:
    async def story() -> None:
        async with a_server(objects) as server, server.client() as client:
            listed = await summaries(client, "Workload", "")
            answers = Answers(Connection(client, "team"), None)
            for document in objects["workloads"]:
                workload = codec.convert(Workload, document)
                explanation = await answers.of(OfWorkload(workload))
                event(f"{explanation.state} {explanation.code}")
                summary = listed.of_workload(workload)
                assert (summary.state, summary.code) == (explanation.state, explanation.code), document
            status = await read_status(Connection(client, "team"), finished=True)
            assert status.problem == listed.problem
            assert listed.problem.startswith("states are evaluated with ")

    asyncio.run(story())


@st.composite
def gang_worlds(draw: st.DrawFn) -> dict[str, list[Json]]:
    """Return pod groups that the scheduler of Volcano has judged, or not yet, on nodes of 4 cpu."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    groups, pods = [], []
    for number in range(draw(st.integers(1, 3))):
        name, members = f"g{number}", draw(st.integers(1, 3))
        cpu = draw(st.sampled_from((1, 3, 6)))
        status: Json = {"phase": draw(st.sampled_from(("Pending", "Inqueue")))}
        if draw(st.booleans()):
            status["conditions"] = [UNSCHEDULABLE]
        queue = draw(st.sampled_from(("default", "default", "small", "missing")))
        spec = {"minMember": members, "queue": queue, "minResources": {"cpu": str(cpu * members)}}
        groups.append({"metadata": named(name, "team"), "spec": spec, "status": status})
        for index in range(draw(st.sampled_from((0, members)))):
            pod = named(f"{name}-{index}", "team")
            pod["annotations"] = {"scheduling.k8s.io/group-name": name}
            container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
            pod_spec = {"schedulerName": "volcano", "containers": [container]}
            pods.append({"metadata": pod, "spec": pod_spec, "status": {"phase": "Pending"}})
    return {
        "namespaces": [{"metadata": named("team")}],
        "nodes": [
            {"metadata": named(f"n{number}"), "status": {"allocatable": allocatable, "conditions": ready}}
            for number in range(draw(st.integers(0, 2)))
        ],
        "queues": [
            {"metadata": named("default"), "spec": {"weight": 1}, "status": {"state": "Open"}},
            {"metadata": named("small"), "spec": {"capability": {"cpu": "2"}}, "status": {"state": "Open"}},
        ],
        "podgroups": groups,
        "pods": pods,
    }


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=20)
@given(gang_worlds())
def test_the_list_says_of_each_pod_group_what_explain_says(objects: dict[str, list[Json]]) -> None:
    async def story() -> None:
        async with a_server(objects) as server, server.client() as client:
            listed = await summaries(client, "PodGroup", "")
            answers = Answers(Connection(client, "team"), None)
            for key, summary in listed.by_key.items():
                explanation = await answers.of(OfObject("podgroups", key))
                event(f"{explanation.state} {explanation.code}")
                assert (summary.state, summary.code) == (explanation.state, explanation.code), key

    asyncio.run(story())
