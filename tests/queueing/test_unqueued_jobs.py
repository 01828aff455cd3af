"""The explanation of jobs that nothing queues."""

import pytest

from quorate.api.configuration import load_configuration
from quorate.api.meta import Key
from quorate.queueing.explanation.jobs import UnqueuedJob, explain_unqueued_job
from tests.queueing.test_explanation_states import a_world

JOB = Key("default", "train")
MANAGED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
managedJobsNamespaceSelector: {matchLabels: {managed: "true"}}
"""


@pytest.mark.parametrize(
    ("job", "codes"),
    [
        pytest.param(UnqueuedJob("Job", JOB, "a"), ["NoWorkload"], id="it may be queued"),
        pytest.param(UnqueuedJob("Job", JOB, ""), ["NoQueueName"], id="no label"),
        pytest.param(
            UnqueuedJob("Job", JOB, "", is_suspended=True), ["NoQueueName"], id="no label, and suspended"
        ),
        pytest.param(
            UnqueuedJob("CronJob", JOB, "", "no kind of job", group="batch"),
            ["KindNotQueued"],
            id="a CronJob",
        ),
        pytest.param(UnqueuedJob("Job", JOB, "gone"), ["QueueMissing"], id="no such queue"),
        pytest.param(
            UnqueuedJob("Job", JOB, "a", "the integration x is off"), ["KindNotQueued"], id="kind not queued"
        ),
        pytest.param(
            UnqueuedJob("Job", Key("kube-system", "j"), "a"),
            ["QueueMissing", "NamespaceNotManaged"],
            id="namespace not managed",
        ),
        pytest.param(
            UnqueuedJob("Pod", JOB, "a"), ["WebhooksNotServed"], id="a pod that no webhook has gated"
        ),
    ],
)
def test_a_job_without_a_workload_says_why(job: UnqueuedJob, codes: list[str]) -> None:
    state = a_world().state
    state.configuration = load_configuration(MANAGED).configuration
    state.put_namespace("default", {"managed": "true"})
    found = explain_unqueued_job(state, job)
    assert (found.state, [each.code for each in found.reasons]) == ("NotQueued", codes)
    assert found.enough


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(
            UnqueuedJob("Job", JOB, "", is_suspended=True), "nothing will start it", id="it is suspended"
        ),
        pytest.param(UnqueuedJob("Job", JOB, "", is_suspended=False), "outside of every quota", id="it runs"),
    ],
)
def test_a_job_without_a_queue_says_what_becomes_of_it(job: UnqueuedJob, want: str) -> None:
    assert want in explain_unqueued_job(a_world().state, job).message


def test_a_similar_queue_is_suggested() -> None:
    world = a_world()
    world.put_local_queue(JOB.namespace, "research")
    (enough,) = explain_unqueued_job(world.state, UnqueuedJob("Job", JOB, "reserch")).enough
    assert enough.endswith("(did you mean research?)")
