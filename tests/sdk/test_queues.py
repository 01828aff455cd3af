"""The queues that the jobs of manifests name, before the manifests are applied."""

import asyncio
from typing import Any, Final, cast

import pytest

from quorate.api import codec
from quorate.api.names.kueue import QUEUE_NAME
from quorate.processes.local.manifests import Manifest, read_manifest_text
from quorate.sdk.cluster import check_queues, set_default_queue

_NO_CLIENT: Final = cast("Any", None)


def manifests(body: dict[str, object]) -> tuple[Manifest, ...]:
    return read_manifest_text(codec.encode(body).decode(), "manifests")


def job(**metadata: object) -> tuple[Manifest, ...]:
    return manifests({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", **metadata}})


@pytest.mark.parametrize("labels", [["a"], "a", {QUEUE_NAME: 5}], ids=str)
def test_labels_that_the_api_server_refuses_name_no_queue(labels: object) -> None:
    jobs = job(labels=labels)
    set_default_queue(jobs, "research")
    assert jobs[0].body["metadata"]["labels"] == labels
    asyncio.run(check_queues(_NO_CLIENT, jobs, "lab"))


@pytest.mark.parametrize("metadata", [{}, {"labels": None}, {"labels": {}}], ids=str)
def test_a_job_without_labels_gets_the_queue(metadata: dict[str, object]) -> None:
    jobs = job(**metadata)
    set_default_queue(jobs, "research")
    assert jobs[0].body["metadata"]["labels"] == {QUEUE_NAME: "research"}


def test_a_local_queue_may_have_a_generated_name() -> None:
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": "lab"}}
    queues = manifests({**queue, "metadata": {"generateName": "lab-"}})
    asyncio.run(check_queues(_NO_CLIENT, queues, "lab"))
