"""What is wrong with queueing objects beyond what the schemas of their CRDs can say.

Every function answers with all findings at once, in the order of the fields.  The rules are Kueue's, those
its webhooks enforce.  They hold without webhooks, too: ours refuse an object with them, the controllers make
conditions of them, and ``quorate local run`` refuses a manifest before it is applied.  The rules that schemas
do state, such as lengths and enumerations, are not repeated here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.conversion import NEWER, OLDER, convert_version
from quorate.api.findings import Finding
from quorate.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from quorate.api.validation.fields import Findings
from quorate.api.validation.queues import (
    cluster_queue_findings,
    cohort_findings,
    local_queue_findings,
    resource_flavor_findings,
)
from quorate.api.validation.workloads import ReviewedWorkload, workload_findings


def manifest_findings(body: Mapping[str, Any]) -> list[Finding]:
    """The findings of an object of any version; none for other kinds.

    An object whose shape is wrong gets none either: an API server says that, with all its paths.
    """
    if body.get("apiVersion") not in (OLDER, NEWER) or body.get("kind") not in _VALIDATORS:
        return []
    type_, validate = _VALIDATORS[body["kind"]]
    try:
        return list(validate(codec.convert(type_, convert_version(dict(body), NEWER))))
    except (msgspec.ValidationError, KeyError, TypeError):  # the latter two: conversion trusts shapes
        return []


_VALIDATORS: Final[Mapping[str, tuple[Any, Callable[[Any], Findings]]]] = {
    "ClusterQueue": (ClusterQueue, cluster_queue_findings),
    "Cohort": (Cohort, cohort_findings),
    "LocalQueue": (LocalQueue, local_queue_findings),
    "ResourceFlavor": (ResourceFlavor, resource_flavor_findings),
    "Workload": (ReviewedWorkload, workload_findings),
}
