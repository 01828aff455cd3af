"""Validation of queueing and gang scheduling objects beyond the schemas of their CRDs.

Every function returns all findings, in the order of the fields. The rules are those of Kueue's and Volcano's
webhooks. They also apply without webhooks: webhooks reject objects by them, controllers turn them into
conditions, and ``quorate local run`` rejects a manifest before applying it. Rules that the schemas express,
such as lengths and enumerations, are not repeated here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quorate.api import codec, volcano
from quorate.api.findings import Finding
from quorate.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload
from quorate.api.kueue.conversion import V1BETA1, V1BETA2, convert_version
from quorate.api.validation.fields import Findings
from quorate.api.validation.pod_groups import pod_group_findings
from quorate.api.validation.queues import (
    cluster_queue_findings,
    cohort_findings,
    local_queue_findings,
    resource_flavor_findings,
)
from quorate.api.validation.volcano_jobs import volcano_job_findings
from quorate.api.validation.volcano_queues import queue_spec_findings
from quorate.api.validation.workloads import workload_findings
from quorate.api.volcano import job as volcano_job
from quorate.api.volcano.job import with_defaults


def manifest_findings(body: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of an object of any version; none for other kinds.

    An object with a wrong shape has no findings here, because an API server reports the shape with all paths.
    """
    version, kind = body.get("apiVersion"), body.get("kind")
    converted = version in (V1BETA1, V1BETA2)
    validator = _VALIDATORS.get((V1BETA2 if converted else str(version), str(kind)))
    if validator is None:
        return []
    type_, validate = validator
    try:
        document = convert_version(dict(body), V1BETA2) if converted else dict(body)
        return list(validate(codec.convert(type_, document)))
    except (msgspec.ValidationError, KeyError, TypeError):  # the latter two: conversion assumes valid shapes
        return []


_SCHEDULING: Final = f"{volcano.GROUP}/{volcano.VERSION}"
_BATCH: Final = f"{volcano_job.GROUP}/{volcano_job.VERSION}"
_VALIDATORS: Final[Mapping[tuple[str, str], tuple[Any, Callable[[Any], Findings]]]] = {
    (V1BETA2, "ClusterQueue"): (ClusterQueue, cluster_queue_findings),
    (V1BETA2, "Cohort"): (Cohort, cohort_findings),
    (V1BETA2, "LocalQueue"): (LocalQueue, local_queue_findings),
    (V1BETA2, "ResourceFlavor"): (ResourceFlavor, resource_flavor_findings),
    (V1BETA2, "Workload"): (Workload, workload_findings),
    (_SCHEDULING, "PodGroup"): (volcano.PodGroup, pod_group_findings),
    (_SCHEDULING, "Queue"): (volcano.Queue, queue_spec_findings),
    (_BATCH, "Job"): (volcano_job.Job, lambda job: volcano_job_findings(with_defaults(job))),
}
