"""Parsl's provider, which runs each block of workers as a pod."""

import time

from parsl.jobs.states import JobState
from parsl.providers import KubernetesProvider


def a_block_runs_and_is_cancelled() -> None:
    provider = KubernetesProvider(image="worker", namespace="default", init_cpu=1, max_cpu=1)
    block = provider.submit("process_worker_pool.py", 1, "block")
    deadline = time.monotonic() + 60
    seen: list[JobState] = []
    while JobState.RUNNING not in seen:
        assert time.monotonic() < deadline, seen
        (status,) = provider.status([block])
        seen.append(status.state)
        time.sleep(0.2)
    pod = provider.resources[block]["pod_name"]
    assert provider.kube_client.read_namespaced_pod(pod, "default").status.phase == "Running"
    assert provider.cancel([block]) == [True]
    while pod in [each.metadata.name for each in provider.kube_client.list_namespaced_pod("default").items]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
