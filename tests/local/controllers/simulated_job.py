"""A job and its pods as values, on which sync results take effect at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.core import PodSpec, PodStatus
from quorate.api.meta import Uid, at_epoch
from quorate.local.controllers.job.failure_policy import Backoff
from quorate.local.controllers.job.pod_management import pod_from_template
from quorate.local.controllers.job.sync import SyncResult, sync_job
from quorate.local.controllers.job.types import (
    TRACKING_FINALIZER,
    Job,
    JobStatus,
    Pod,
    PodMeta,
)

START = 1_700_000_000.0


def a_job(completions: int | None = 1, parallelism: int = 1, restart: str = "Never", **spec: Any) -> Job:
    wire = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "job"},
        "spec": {
            "parallelism": parallelism,
            "completions": completions,
            "backoffLimit": 6,
            "template": {"spec": {"restartPolicy": restart, "containers": [{"name": "main"}]}},
            **spec,
        },
    }
    return codec.decode(Job, codec.encode(wire))


def a_pod(name: str, phase: str = "Pending", index: int | None = None, **status: Any) -> Pod:
    return Pod(
        metadata=PodMeta(
            name=name,
            namespace="ns",
            uid=Uid(name),
            finalizers=(TRACKING_FINALIZER,),
            creation_timestamp=at_epoch(START),
            annotations={} if index is None else {JOB_COMPLETION_INDEX: str(index)},
        ),
        status=codec.convert(PodStatus, {"phase": phase, **status}),
    )


def exited(code: int, at: float = START) -> dict[str, Any]:
    ended = {"exitCode": code, "finishedAt": at_epoch(at).isoformat().replace("+00:00", "Z")}
    return {"containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}


@dataclass
class SimulatedJob:
    job: Job
    now: float = START
    pods: dict[str, Pod] = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    made: int = 0  # number of pods created so far
    events: list[str] = field(default_factory=list)  # reasons of events, in order

    def reconcile(self) -> SyncResult:
        decided = sync_job(self.job, tuple(self.pods.values()), self.now, self.backoff)
        for pod in decided.discard:
            self.delete(self.untrack(pod).metadata.name)
        for pod in decided.delete:
            self.delete(pod.metadata.name)
        for new in decided.create:
            body = codec.decode(Pod, codec.encode(pod_from_template(self.job, new)))
            name = f"{body.metadata.generate_name}{self.made:05}"
            self.made += 1
            metadata = replace(body.metadata, name=name, uid=Uid(name), creation_timestamp=at_epoch(self.now))
            self.pods[name] = replace(body, metadata=metadata)
        self.job = replace(self.job, status=decided.status)
        for pod in decided.release:
            if pod.metadata.name in self.pods:
                self.untrack(self.pods[pod.metadata.name])
        self.backoff = decided.backoff
        self.events += [event.reason for event in decided.events]
        return decided

    def settle(self) -> SyncResult:
        """Reconcile until a sync changes nothing; return its result.

        The number of rounds is far above what any case needs.
        """
        for _ in range(20):
            before = (self.job, dict(self.pods))
            decided = self.reconcile()
            if (self.job, self.pods) == before:
                return decided
        raise AssertionError(f"does not settle: {decided}")

    def finish(self, name: str, code: int = 0) -> None:
        phase = "Failed" if code else "Succeeded"
        status = codec.convert(PodStatus, {"phase": phase, **exited(code, self.now)})
        self.pods[name] = replace(self.pods[name], status=status)

    def run(self, name: str) -> None:
        status = PodStatus(phase="Running")
        self.pods[name] = replace(self.pods[name], spec=PodSpec(node_name="n"), status=status)

    def delete(self, name: str) -> None:
        """Delete a pod as the API does: at once, unless it has a finalizer or runs on a node."""
        pod = self.pods[name]
        marked = replace(pod.metadata, deletion_timestamp=at_epoch(self.now))
        self.pods[name] = replace(pod, metadata=marked)
        if not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
            self._sweep(name)

    def stop(self, name: str) -> None:
        """Let the node stop a pod that is being deleted."""
        self.finish(name, code=143)
        self._sweep(name)

    def untrack(self, pod: Pod) -> Pod:
        name = pod.metadata.name
        self.pods[name] = replace(pod, metadata=replace(pod.metadata, finalizers=()))
        released = self.pods[name]
        if pod.metadata.deletion_timestamp and (not pod.spec.node_name or pod.status.phase == "Failed"):
            self._sweep(name)
        return released

    def _sweep(self, name: str) -> None:
        if not self.pods[name].metadata.finalizers:
            del self.pods[name]

    def change(self, **spec: Any) -> None:
        self.job = replace(self.job, spec=replace(self.job.spec, **spec))

    @property
    def status(self) -> JobStatus:
        return self.job.status

    @property
    def live(self) -> list[Pod]:
        return [
            pod
            for pod in self.pods.values()
            if pod.status.phase in ("Pending", "Running") and pod.metadata.deletion_timestamp is None
        ]

    @property
    def true_conditions(self) -> list[str]:
        return [condition.type for condition in self.status.conditions if condition.status == "True"]


def indexes(pods: Iterable[Pod]) -> list[int | None]:
    return sorted((pod.index for pod in pods), key=str)
