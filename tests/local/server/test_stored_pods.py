"""The server stores the amounts of a pod, or refuses it, as a kube-apiserver does; see ``stored_pods``."""

import re

import pytest

from tests.api.core.stored_pods import Json, Row, amounts_of, read_table
from tests.local.api_client import ApiClient, run_with_server

pytestmark = pytest.mark.slow


async def create_pod(api: ApiClient, namespace: str, row: Row) -> Json:
    """Return the pod, or the refusal, of a dry run in a namespace with the limit ranges of ``row``."""
    await api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for number, limits in enumerate(row.limit_ranges):
        body = {"metadata": {"name": f"l{number}"}, "spec": {"limits": limits}}
        await api.create(f"/api/v1/namespaces/{namespace}/limitranges", body)
    pod = {"metadata": {"name": "p"}, "spec": row.spec}
    _, answer = await api.send("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    return dict(answer)


def result(answer: Json) -> object:
    match answer.get("code"):
        case None:
            return amounts_of(answer["spec"]), answer["status"]["qosClass"]
        case 422:
            return {f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]}
        case _:
            return _texts(answer["message"])


def recorded(row: Row) -> object:
    if row.stored is not None:
        return row.stored, row.qos_class
    return set(row.invalid) if row.invalid else _texts(row.forbidden)


def _texts(message: str) -> set[str]:
    """Return the parts of a message of several, which come in any order."""
    text = message.removeprefix('pods "p" is forbidden: ').removeprefix("[").removesuffix("]")
    return set(re.split(r", (?=min|max|cpu|memory)", text))


def test_pods_are_stored_or_refused_as_by_a_kube_apiserver() -> None:
    overheads, rows = read_table()

    async def scenario(api: ApiClient) -> None:
        for name, overhead in overheads.items():
            body = {"metadata": {"name": name}, "handler": "h"}
            fields = {"overhead": {"podFixed": overhead}} if overhead else {}
            await api.create("/apis/node.k8s.io/v1/runtimeclasses", body | fields)
        for number, row in enumerate(rows):
            if not row.is_ambiguous:
                assert result(await create_pod(api, f"n{number}", row)) == recorded(row), row

    run_with_server(scenario)


def test_a_runtime_class_sets_where_its_pods_may_run() -> None:
    tolerations = [{"key": "sandbox", "operator": "Exists"}]
    scheduling = {"nodeSelector": {"sandbox": "true"}, "tolerations": tolerations}
    spec = {"runtimeClassName": "r", "containers": [{"name": "c", "image": "busybox"}]}

    async def scenario(api: ApiClient) -> None:
        body = {"metadata": {"name": "r"}, "handler": "h", "scheduling": scheduling}
        await api.create("/apis/node.k8s.io/v1/runtimeclasses", body)
        pods = "/api/v1/namespaces/default/pods"
        fitting = spec | {"nodeSelector": {"zone": "a"}}
        stored = await api.create(pods, {"metadata": {"name": "p"}, "spec": fitting})
        assert stored["spec"]["nodeSelector"] == {"zone": "a", "sandbox": "true"}
        assert tolerations[0] in stored["spec"]["tolerations"]
        contradicting = spec | {"nodeSelector": {"sandbox": "false"}}
        code, answer = await api.send("POST", pods, {"metadata": {"name": "q"}, "spec": contradicting})
        assert (code, "conflict: runtimeClass.scheduling.nodeSelector" in answer["message"]) == (403, True)

    run_with_server(scenario)
