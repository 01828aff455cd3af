"""What a request was about, told from its path."""

import pytest

from quorate.observe.asked import resource_of


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/default", "namespaces"),
        ("/api/v1/namespaces/default/status", "namespaces/status"),
        ("/api/v1/namespaces/default/pods", "pods"),
        ("/api/v1/namespaces/default/pods/a/binding", "pods/binding"),
        ("/apis/batch/v1/namespaces/default/jobs/a", "jobs.batch"),
        ("/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/w/status", "workloads.kueue.x-k8s.io/status"),
        ("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/c/status", "clusterqueues.kueue.x-k8s.io/status"),
        ("/apis/kueue.x-k8s.io/v1beta2", "other"),
        ("/version", "other"),
    ],
)
def test_the_resource(path: str, want: str) -> None:
    assert resource_of(path) == want
