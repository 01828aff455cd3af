"""What jobs hold: quota of cluster queues, and places on nodes, as the model counts them."""

from collections.abc import Iterable, Iterator

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.nodes.places import Place
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource
from quorate.simulate.engine.records import UsageRecords
from quorate.simulate.engine.simulated_job import SimulatedJob

NO_FLAVOR = ""  # of what is used of a node


class HeldAmounts:
    """Keeps the records of use equal to the model."""

    def __init__(self, state: State, quota: UsageRecords, nodes: UsageRecords) -> None:
        self._state = state
        self._quota = quota
        self._nodes = nodes
        self._on_host: dict[str, dict[Key, SimulatedJob]] = {}

    def jobs_on(self, hosts: Iterable[str]) -> Iterator[SimulatedJob]:
        """Yield the jobs with pods on one of ``hosts``, in a fixed order."""
        jobs = {key: job for host in hosts for key, job in self._on_host.get(host, {}).items()}
        yield from (jobs[key] for key in sorted(jobs))

    def count(self, job: SimulatedJob, now_ms: int) -> None:
        """Count the amounts that a job holds from now on, instead of its former amounts."""
        reservation = self._state.ledger.reservations.get(job.key)
        if reservation is not None and c.is_finished(job.workload):
            reservation = None
        self._count_quota(job, reservation, now_ms)
        places = () if reservation is None else reservation.places.all
        if places is not job.places and places != job.places:
            self._count_places(job, job.places, -1, now_ms)
            self._count_places(job, places, 1, now_ms)
        job.places = places

    def _count_quota(self, job: SimulatedJob, reservation: Reservation | None, now_ms: int) -> None:
        held = None if reservation is None else (reservation.admission.cluster_queue, reservation.usage)
        if held == job.usage:
            return
        if job.usage is not None:
            self._quota.change(*job.usage, -1, now_ms)
        if held is not None:
            self._quota.change(*held, 1, now_ms)
        job.usage = held

    def _count_places(self, job: SimulatedJob, places: Iterable[Place], sign: int, now_ms: int) -> None:
        for place in places:
            if not place.on_host:
                continue
            host = place.values[-1]
            on_host = self._on_host.setdefault(host, {})
            if sign > 0:
                on_host[job.key] = job
            else:
                on_host.pop(job.key, None)
            amounts = {FlavorResource(NO_FLAVOR, name): amount for name, amount in place.amounts.items()}
            self._nodes.change(host, amounts, sign, now_ms)
