"""The figures of a run of several clusters: waits, copies, and what each cluster ran."""

from collections import Counter

import msgspec

from quorate.simulate.engine.clusters import ClustersRun
from quorate.simulate.results.summary import Waits, summarize


class ClusterUse(msgspec.Struct, frozen=True, rename="camel"):
    jobs: int  # of the manager, which the cluster started
    preemptions: int
    evictions: int  # for another reason
    share: float | None  # the largest share of the quota of a flavor that was used on average


class ClustersSummary(msgspec.Struct, frozen=True, rename="camel"):
    """Of one dispatcher in one world; a job is admitted when a cluster starts it."""

    name: str  # of the run
    jobs: Waits
    copies: int  # workloads created in clusters
    moved: int  # of these: removed before any cluster started the job
    clusters: dict[str, ClusterUse]


def summarize_clusters(name: str, run: ClustersRun) -> ClustersSummary:
    """Return the figures of ``run``, called ``name``."""
    started = Counter(run.started_in.values())
    clusters = {}
    for cluster, worker in run.workers.items():
        summary = summarize(worker)
        shares = [use.share for use in summary.utilisation if use.share is not None]
        clusters[cluster] = ClusterUse(
            jobs=started[cluster],
            preemptions=summary.jobs.preemptions,
            evictions=summary.jobs.evictions,
            share=max(shares, default=None),
        )
    return ClustersSummary(name, summarize(run.manager).jobs, run.copies, run.moved, clusters)
