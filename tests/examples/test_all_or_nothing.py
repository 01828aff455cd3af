"""The files of the example have the properties that its README states."""

from pathlib import Path
from typing import Any

from quorate.api.batch import Job, decode_template
from quorate.api.codec import convert, decode, encode
from quorate.api.configuration import load_configuration
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.decoding.documents import read_documents
from quorate.api.kueue import ClusterQueue
from quorate.api.kueue.conversion import V1BETA2, convert_version
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.quantity import parse_quantity

EXAMPLE = Path(__file__).parents[2] / "examples" / "all-or-nothing"


def read_text(name: str) -> str:
    return (EXAMPLE / name).read_text(encoding="utf-8")


def objects_of(name: str) -> dict[str, Any]:
    """Return the objects of a file by kind."""
    documents = read_documents(read_text(name))
    assert not any(document.findings for document in documents)
    return {document.value["kind"]: document.value for document in documents}


def a_job(name: str) -> Job:
    return decode(Job, encode(objects_of(name)["Job"]))


def memory_of(job: Job) -> int:
    (container,) = decode_template(job.spec.template).spec.containers
    return container.resources.requests["memory"].units


def test_the_nodes_fit_one_job_and_the_quota_fits_two() -> None:
    job = a_job("2-job1.yaml")
    cluster = objects_of("cluster.yaml")["Cluster"]
    node = parse_quantity(cluster["memory"]).units
    quick = a_job("1-quick-job.yaml")
    free = node - (quick.spec.completions or 0) * memory_of(quick)  # if all quick pods are on one node
    capacity = cluster["nodes"] * (free // memory_of(job))
    assert (job.spec.parallelism, capacity) == (20, 26)
    queue = convert(ClusterQueue, convert_version(objects_of("cluster-queues.yaml")["ClusterQueue"], V1BETA2))
    ((quota,),) = ((flavor.resources for flavor in group.flavors) for group in queue.spec.resource_groups)
    assert quota[0].nominal_quota.units == 2 * cluster["nodes"] * node
    assert quota[0].nominal_quota.units >= 2 * 20 * memory_of(job)


def test_the_two_jobs_differ_only_in_their_number() -> None:
    first = read_text("2-job1.yaml")
    for name in ("job", "svc", "script-code"):
        first = first.replace(f"{name}1", f"{name}2")
    assert first == read_text("3-job2.yaml")


def test_jobs_name_their_queue_by_label_and_by_annotation() -> None:
    assert a_job("2-job1.yaml").metadata.labels == {QUEUE_NAME: "user-queue"}
    assert a_job("1-quick-job.yaml").metadata.annotations == {QUEUE_NAME: "user-queue"}


def test_the_configurations_differ_in_wait_for_pods_ready() -> None:
    without = load_configuration(read_text("without-pods-ready.yaml"))
    waiting = load_configuration(read_text("with-pods-ready.yaml"))
    assert without.warnings == waiting.warnings == ()
    assert without.configuration.wait_for_pods_ready is None
    assert waiting.configuration.wait_for_pods_ready == WaitForPodsReady(
        timeout_s=600.0,
        recovery_timeout_s=600.0,
        block_admission="AllQueues",
        requeuing_strategy=RequeuingStrategy(backoff_limit_count=5),
    )
