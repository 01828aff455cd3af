"""Metrics of created workloads."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from quorate.api.meta import ObjectMeta, at_epoch
from quorate.controllers.context import record_workload_creations
from quorate.kube.resources import JOBS, WORKLOADS
from quorate.kube.writes import Create, Delete, Patch
from tests.controllers.objects import CREATED_AT, a_job, a_workload

Observation = tuple[str, Mapping[str, str], float | None, Mapping[str, str]]
NOTHING: Mapping[str, str] = {}
WORKLOAD = a_workload()
MADE = Create(WORKLOADS, WORKLOAD, "default")
LET_GO = Delete(WORKLOADS, WORKLOAD.metadata.key, WORKLOAD.metadata.uid)
STOPPED = Patch(JOBS, a_job().metadata.key, "7", {})


def recorded(job: ObjectMeta, writes: list[Any], answers: list[Any]) -> list[Observation]:
    observations: list[Observation] = []

    def record(
        name: str,
        labels: Mapping[str, str],
        seconds: float | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        observations.append((name, labels, seconds, about or {}))

    record_workload_creations(record, "Job", job, writes, answers)
    return observations


def a_job_created(before_s: float, generation: int = 1) -> ObjectMeta:
    created = at_epoch(CREATED_AT - before_s)
    return msgspec.structs.replace(a_job().metadata, creation_timestamp=created, generation=generation)


def test_the_creation_latency_is_recorded_with_the_queue() -> None:
    assert recorded(a_job_created(3), [STOPPED, MADE], [a_job(), WORKLOAD]) == [
        (
            "kueue_workload_creation_latency_seconds",
            {"job_kind": "Job"},
            3.0,
            {"name": "queue", "namespace": "default"},
        )
    ]


@pytest.mark.parametrize(
    ("generation", "writes", "answers"),
    [
        pytest.param(2, [MADE], [WORKLOAD], id="a job that was updated before"),
        pytest.param(1, [Patch(WORKLOADS, WORKLOAD.metadata.key, "9", {})], [WORKLOAD], id="a patch"),
        pytest.param(1, [LET_GO], [], id="a deletion"),
    ],
)
def test_other_writes_record_no_latency(generation: int, writes: list[Any], answers: list[Any]) -> None:
    assert recorded(a_job_created(3, generation), writes, answers) == []


def test_a_workload_patched_in_the_same_plan_is_recorded_once() -> None:
    patched = Patch(WORKLOADS, WORKLOAD.metadata.key, "9", {})
    assert len(recorded(a_job_created(0), [MADE, patched], [WORKLOAD, WORKLOAD])) == 1
