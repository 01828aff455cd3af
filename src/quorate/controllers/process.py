"""The queueing controllers as one: made together, started once everything is known, stopped together."""

import asyncio
import random

from quorate.api.configuration import Configuration
from quorate.controllers.admission import Admission
from quorate.controllers.flavors import FlavorController
from quorate.controllers.informers import Informers, synced
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.reconcile import JobController
from quorate.controllers.priorities import PriorityController
from quorate.controllers.queues import QueueController
from quorate.controllers.workloads import WorkloadController
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.resources import JOBS

COMPONENT = "quorate-controllers"


async def run_queueing(
    client: Client,
    clock: Clock,
    configuration: Configuration,
    rng: random.Random,
    ready: asyncio.Event | None = None,
) -> None:
    """Run until cancelled.  ``ready`` is set once everything stored is known and work has begun.

    All that must survive is in the API: a new run on the same cluster, after a stop at whatever moment,
    goes on where this one left off.
    """
    events = EventRecorder(client, clock, COMPONENT)
    informers = Informers(client)
    jobs = Informer(client, JOBS)
    admission = Admission(informers, client, clock, events, configuration)
    state = admission.state
    job_controller = JobController(BatchJob(), jobs, informers, client, clock, events, configuration)
    workloads = WorkloadController(informers, state, client, clock, events, configuration, rng)
    queues = QueueController(informers, state, client, clock)
    flavors = FlavorController(informers, client, clock)
    priorities = PriorityController(informers, client, clock)
    watched = (*informers.all, jobs)
    async with asyncio.TaskGroup() as tasks:
        for informer in watched:
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        tasks.create_task(events.run(), name="events")
        await synced(*watched)
        tasks.create_task(admission.run(), name="admission")
        for controller in (job_controller, workloads, queues, flavors, priorities):
            tasks.create_task(controller.reconciler.run(), name=controller.reconciler.name)
        if ready is not None:
            ready.set()
