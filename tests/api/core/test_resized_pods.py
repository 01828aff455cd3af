"""A pod that is resized in place requests what kube-scheduler counts: the table resized-pods.jsonl."""

from pathlib import Path

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import pod_limits, pod_requests
from quorate.placement.resources import in_base_units, placed_pod_amounts
from quorate.webhooks.volcano.quota_pod import QuotaPod, pod_quota_usage
from tests.api.core.stored_pods import Json

TABLE = Path(__file__).parent / "resized-pods.jsonl"


def test_requests_and_limits_are_those_of_kube_scheduler() -> None:
    _, *lines = TABLE.read_bytes().splitlines()
    for line in lines:
        row: Json = msgspec.json.decode(line)
        body = {"metadata": {}, "spec": row["spec"], "status": row["status"]}
        pod = codec.convert(Pod, body)
        requests = {name: str(amount) for name, amount in pod_requests(pod.spec, pod.status).items()}
        assert requests == row["requests"], row
        assert {name: str(each) for name, each in pod_limits(pod.spec, pod.status).items()} == row[
            "limits"
        ], row
        # The same for every view of a pod.
        bound = codec.convert(Pod, body)
        assert bound.requests == pod_requests(pod.spec, pod.status)
        assert placed_pod_amounts(pod) == {**in_base_units(bound.requests), "pods": 1}
        usage = pod_quota_usage(codec.convert(QuotaPod, body), ()).usage
        assert usage.get("cpu") == placed_pod_amounts(pod).get("cpu"), row
    assert len(lines) > 100
