"""The controllers of a cluster that dispatches workloads to worker clusters."""

import asyncio

from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.multikueue.connection.check_controller import CheckController
from quorate.controllers.multikueue.connection.cluster_controller import ClusterController
from quorate.controllers.multikueue.connection.collector import Collector
from quorate.controllers.multikueue.dispatch.start_questions import StartQuestions
from quorate.controllers.multikueue.dispatch.workload_controller import DispatchController
from quorate.controllers.multikueue.jobs.job_copies import JobCopies
from quorate.controllers.multikueue.jobs.local_jobs import LocalJobs
from quorate.controllers.multikueue.jobs.remote_jobs import RemoteJobs
from quorate.controllers.multikueue.jobs.remote_kinds import remote_kinds
from quorate.controllers.multikueue.manager_quota import QuotaController
from quorate.controllers.multikueue.workers import Workers
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Informer
from quorate.kube.resources import MULTIKUEUE_CLUSTERS, MULTIKUEUE_CONFIGS
from quorate.observe.replica import Replica


async def run_multikueue(context: ControllerContext, replica: Replica) -> None:
    """Run the controllers until cancelled, once the kinds of MultiKueue are served."""
    for resource in (MULTIKUEUE_CONFIGS, MULTIKUEUE_CLUSTERS):
        await wait_until_served(resource, context.client, context.clock, on_absent=lambda: None)
    configs = Informer(context.client, MULTIKUEUE_CONFIGS)
    clusters = Informer(context.client, MULTIKUEUE_CLUSTERS)
    workers = Workers()
    async with asyncio.TaskGroup() as tasks:
        for informer in (configs, clusters):
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        await synced(configs, clusters)
        configuration = context.configuration
        origin, short_names = configuration.multikueue.origin, configuration.gates.short_workload_names
        client, clock, workloads = context.client, context.clock, context.informers.workloads
        kinds = remote_kinds(configuration)
        jobs = RemoteJobs(workers, clock, origin, short_names=short_names)
        local_jobs = LocalJobs(client, clock, workers, workloads)
        copies = JobCopies(client, clock, kinds, jobs, local_jobs, workloads, origin)
        questions = StartQuestions(workers, clock, replica.estimates.ask_model)
        tasks.create_task(questions.run(), name="questions to worker clusters")
        dispatch = DispatchController(context, configs, workers, copies, questions.starts_of)
        questions.on_answered = dispatch.reconciler.enqueue
        cluster_controller = ClusterController(context, clusters, workers)
        check_controller = CheckController(context, configs, clusters)
        replica.worker_clusters = check_controller.statuses
        if configuration.multikueue_gates.manager_quota_automation:
            quota = QuotaController(context, configs, workers)
            tasks.create_task(quota.run(), name="multikueue quota")
        tasks.create_task(jobs.run(), name="copies of jobs")
        tasks.create_task(local_jobs.follow(kinds.values()), name="jobs with copies")
        tasks.create_task(dispatch.run(), name="multikueue workloads")
        tasks.create_task(cluster_controller.run(), name="multikueue clusters")
        tasks.create_task(Collector(context, workers).run(), name="multikueue garbage")
        tasks.create_task(check_controller.reconciler.run(), name="multikueue checks")
