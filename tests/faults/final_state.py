"""The required state after the faults have stopped: each job has reached its possible end."""

import asyncio
from collections.abc import Collection, Iterator

from quorate.api.batch import Job
from quorate.api.kueue import ClusterQueue, Workload
from quorate.api.meta import find_condition, is_true
from quorate.kube.client import Client
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from quorate.observe.replica import Replica, Role
from quorate.observe.view import View
from quorate.queueing.cluster_queue import usage_of
from quorate.queueing.conditions import has_quota_reservation, is_admitted, is_finished
from quorate.queueing.model_audit import audit_model
from quorate.quota.amount import base_units, total
from quorate.quota.audit import audit
from tests.faults.scene import Scene, Submission


async def final_state_findings(client: Client, scene: Scene) -> list[str]:
    """Return the differences from the required final state; empty when settled."""
    jobs = {job.metadata.name: job for job in (await client.list(JOBS)).items}
    workloads = (await client.list(WORKLOADS)).items
    queues = (await client.list(CLUSTER_QUEUES)).items
    findings: list[str] = []
    for submission in scene.submissions:
        job = jobs.get(submission.name)
        owned = [each for each in workloads if _owner(each) == submission.name]
        if submission.delete_at_s is not None:
            if job is not None or owned:
                findings.append(
                    f"{submission.name} was deleted and is still there, with {len(owned)} workloads"
                )
        elif job is None:
            findings.append(f"{submission.name} is lost")
        elif not submission.queue:
            findings += _unmanaged(submission, job, owned)
        else:
            findings += _managed(submission, job, owned)
    for queue in queues:
        findings += _queue_status(queue, workloads)
    return findings


def _owner(workload: Workload) -> str:
    owner = workload.metadata.job_owner
    return owner.name if owner is not None else ""


def _unmanaged(submission: Submission, job: Job, owned: list[Workload]) -> Iterator[str]:
    if owned:
        yield f"promise 6: {submission.name}, which is unmanaged, has a workload"
    if job.status.active != 1 if submission.endless else not is_true(job.status.conditions, "Complete"):
        yield f"promise 6: {submission.name}, which is unmanaged, does not complete"


def _managed(submission: Submission, job: Job, owned: list[Workload]) -> Iterator[str]:
    if len(owned) != 1:
        yield f"{submission.name} has {len(owned)} workloads"
        return
    (workload,) = owned
    conditions = "; ".join(
        f"{each.type}={each.status} {each.reason} {each.message}" for each in workload.status.conditions
    )
    if submission.stuck:
        if not _is_deactivated(workload):
            yield f"{submission.name} never gets ready and is not deactivated: {conditions}"
    elif _is_deactivated(workload):
        pass  # faults delayed its pods beyond the timeout
    elif submission.endless:
        if not is_admitted(workload) or job.status.active != 1:
            yield f"{submission.name} is not running: {conditions}"
    elif not is_true(job.status.conditions, "Complete"):
        yield f"{submission.name} is not complete: {conditions}"
    else:
        finished = find_condition(workload.status.conditions, "Finished")
        if finished is None or finished.reason != "Succeeded":
            yield f"{submission.name} is complete, its workload is not finished: {conditions}"


def _is_deactivated(workload: Workload) -> bool:
    """Return True for a deactivated workload without quota; only the controllers deactivate here."""
    return not workload.spec.active and not has_quota_reservation(workload)


def _queue_status(queue: ClusterQueue, workloads: tuple[Workload, ...]) -> Iterator[str]:
    name, status = queue.metadata.name, queue.status
    holding = [
        each
        for each in workloads
        if has_quota_reservation(each)
        and not is_finished(each)
        and each.status.admission is not None
        and each.status.admission.cluster_queue == name
    ]
    usage = total(usage_of(each, each.status.admission) for each in holding if each.status.admission)
    reserved = {
        (flavor.name, resource.name): base_units(resource.name, resource.total)
        for flavor in status.flavors_reservation
        for resource in flavor.resources
        if resource.total.nanos
    }
    if reserved != {(pair.flavor, pair.resource): amount for pair, amount in usage.items() if amount}:
        yield f"promise 3: queue {name} reports {reserved} as reserved, its workloads hold {usage}"
    if status.reserving_workloads != len(holding) or status.pending_workloads:
        yield (
            f"queue {name} counts {status.reserving_workloads} reserving and {status.pending_workloads} "
            f"pending workloads, expected {len(holding)} and none"
        )


async def lasting_model_differences(
    client: Client, replicas: Collection[Replica], within_s: float
) -> list[str]:
    """Return the differences between the models of replicas and the stored state that do not disappear.

    A model follows the store by watches, which reconnect after a delay, and a replica with a new role shows
    the model of its previous role until it has listed everything.  A difference counts only if it lasts
    ``within_s`` in one model.
    """
    clock = asyncio.get_running_loop().time
    models, deadline = _models(replicas), clock() + within_s
    while differences := await _model_differences(client, replicas):
        if models != _models(replicas):
            models, deadline = _models(replicas), clock() + within_s
        if clock() > deadline:
            return differences
        await asyncio.sleep(0.05)
    return []


def _models(replicas: Collection[Replica]) -> list[tuple[Role, View | None]]:
    return [(replica.role, replica.view) for replica in replicas]


async def _model_differences(client: Client, replicas: Collection[Replica]) -> list[str]:
    workloads = (await client.list(WORKLOADS)).items
    findings: list[str] = []
    for replica in replicas:
        if replica.view is None:
            findings.append(f"a {replica.role} has no model")
            continue
        usage = {
            node: total(
                usage_of(each, each.status.admission)
                for each in workloads
                if each.status.admission is not None
                and each.status.admission.cluster_queue == name
                and has_quota_reservation(each)
                and not is_finished(each)
            )
            for name, node in replica.view.state.ledger.quota.queues.items()
        }
        findings += [
            f"promise 3: the audit of a {replica.role} finds {difference}" for difference in audit(usage)
        ]
        by_key = {each.metadata.key: each for each in workloads}
        findings += [
            f"promise 3: the audit of a {replica.role} finds {difference}"
            for differences in audit_model(replica.view.state, by_key)
            for difference in differences
        ]
    return findings
