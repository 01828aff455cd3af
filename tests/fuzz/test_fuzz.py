"""Attacks are reproducible, and hostile objects stop neither controllers nor scheduler."""

import asyncio
import json
from itertools import chain
from pathlib import Path

import pytest

from tests.fuzz.attacks import attack
from tests.fuzz.cluster import ClusterOptions
from tests.fuzz.findings import Findings
from tests.fuzz.kinds import KINDS
from tests.fuzz.large import large_number
from tests.fuzz.requests import Attack, Request
from tests.fuzz.runs import describe_finding, numbers_of, run

SEED = 5
OBJECTS = 50
LIMIT_MS = 2000.0  # of CPU time: a busy machine does not count, a smaller one does
DEADLINE_S = 60.0
LARGE = [  # each has held an event loop for seconds, or a node for as long as it existed
    ("tfjobs.kubeflow.org", "spec.tfReplicaSpecs.Chief.template.spec.topologySpreadConstraints"),
    ("tfjobs.kubeflow.org", "spec.tfReplicaSpecs.Chief.template.spec.containers"),
    ("jobs.batch.volcano.sh", "spec.tasks.*.template.spec.initContainers"),
    ("jobs.batch.volcano.sh", "spec.volumes"),
    ("pods", "status.containerStatuses.*.allocatedResources"),
]


def test_an_attack_depends_on_seed_and_number_alone() -> None:
    assert [attack(SEED, number) for number in range(12)] == [attack(SEED, number) for number in range(12)]
    assert attack(SEED, 1).requests != attack(SEED + 1, 1).requests


def test_every_kind_is_attacked() -> None:
    paths = " ".join(request.path for number in range(1500) for request in attack(SEED, number).requests)
    assert [
        kind.resource.kind
        for kind in KINDS
        if kind.resource.path("fuzz" * kind.resource.namespaced) not in paths
    ] == []


def test_objects_of_attacks_are_json_and_named_after_their_attack() -> None:
    for number in range(100):
        for path in attack(SEED, number).created:
            assert path.rpartition("/")[2].startswith(f"z{SEED}-{number}")
        for request in attack(SEED, number).requests:
            if request.target == "api" and request.body:
                assert isinstance(json.loads(request.body), dict)


@pytest.mark.parametrize(
    ("path", "name", "deleted"),
    [
        pytest.param("/api/v1/pods", "a", ["/api/v1/pods/a"], id="an object"),
        pytest.param("/api/v1/pods?dryRun=All", "a", [], id="nothing after a dry run"),
        pytest.param("/api/v1/pods", "", [], id="the path without a name is that of the collection"),
        pytest.param("/api/v1/pods", "?", ["/api/v1/pods/%3F"], id="a name that could end the path"),
    ],
)
def test_only_objects_of_an_attack_are_deleted(path: str, name: str, deleted: list[str]) -> None:
    body = json.dumps({"metadata": {"name": name}}).encode()
    assert list(Attack(SEED, 1, "", (Request("POST", path, body),)).created) == deleted


def test_a_finding_names_the_attack_in_its_detail_and_else_the_latest() -> None:
    findings = Findings(SEED)
    findings.recent = [attack(SEED, number) for number in range(20)]
    assert findings.add("traceback", "here", f"in a log, key=fuzz/z{SEED}-7-nnn")
    assert not findings.add("traceback", "here", f"again, key=fuzz/z{SEED}-8")
    assert findings.add("restart", "the scheduler ended", "no name")
    named, latest = sorted(findings.all, key=lambda found: found.kind, reverse=True)
    assert (named.attacks, named.count) == ((7,), 2)
    assert latest.attacks == tuple(range(10, 20))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_objects_break_nothing(tmp_path: Path) -> None:
    options = ClusterOptions(limit_ms=LIMIT_MS)
    numbers = chain(numbers_of(SEED, OBJECTS), (large_number(*each) for each in LARGE))
    report = asyncio.run(run(Findings(SEED), numbers, options, tmp_path, deadline_s=DEADLINE_S))
    assert [describe_finding(SEED, found) for found in report.findings.all] == []
    assert report.driver.stored > OBJECTS // 3
    assert len(report.probe.admissions_s) > 3
