"""Reservations in virtual time, which begins at 2026-01-05T00:00:00Z."""

import pytest

from tests.simulate.worlds import queue, run_of, spans

JOBS = """
jobs:
- {name: long, queue: q, arrivals: {at: [1s]}, requests: {cpu: 2}, runs: 150s, overestimate: 1}
- {name: short, queue: q, arrivals: {at: [2s]}, requests: {cpu: 2}, runs: 50s, overestimate: 1}
"""
MAINTENANCE = """---
apiVersion: quorate.dev/v1alpha1
kind: Reservation
metadata: {name: maintenance}
spec:
  start: "2026-01-05T00:01:40Z"
  durationSeconds: 100
  purpose: Maintenance
  amounts: [{flavor: default, resources: {cpu: 2}}]
"""


def test_what_would_run_into_a_window_waits_until_it_ends() -> None:
    """The window is from second 100 to 200."""
    plain = spans(run_of(JOBS.lstrip(), queue("q", 2)))
    assert (plain["long"], plain["short"]) == ((1, 151), (151, 201))
    kept = spans(run_of(JOBS.lstrip(), queue("q", 2), MAINTENANCE))
    assert (kept["short"], kept["long"]) == ((2, 52), (200, 350))


# It runs longer than the default of its queue, which is not enforced, and into the window from 100 to 200.
OVERRUN = """
clusterQueues:
  q: {defaultMaximumExecutionTime: 90s}
jobs:
- {name: long, queue: q, arrivals: {at: [1s]}, requests: {cpu: 2}, runs: 150s}
"""


@pytest.mark.parametrize(
    ("at_start", "evictions", "ends"),
    [
        pytest.param("", 0, 151, id="it is left"),
        pytest.param("atStart: Evict", 1, 350, id="at once; it begins again when the window has ended"),
        pytest.param("atStart: Evict\n  noticeSeconds: 50", 1, 350, id="after a notice"),
        pytest.param("atStart: Evict\n  noticeSeconds: 52", 0, 151, id="it ends within the notice"),
    ],
)
def test_a_window_evicts_what_runs_into_it(at_start: str, evictions: int, ends: float) -> None:
    run = run_of(OVERRUN.lstrip(), queue("q", 2), f"{MAINTENANCE}  {at_start}\n")
    assert (run.jobs.evictions[0], spans(run)["long"]) == (evictions, (1, ends))


NODES = "nodes: [{name: n, count: 2, capacity: {cpu: 2}}]"
GANGS = f"""{NODES}
jobs:
- name: short
  queue: q
  gang: true
  arrivals: {{at: [1s]}}
  pods: 2
  requests: {{cpu: 2}}
  runs: 50s
  maximumExecutionTimeSeconds: 90
- {{name: long, queue: q, gang: true, arrivals: {{at: [60s]}}, pods: 2, requests: {{cpu: 2}}, runs: 50s}}
- {{name: other, queue: q, arrivals: {{at: [170s]}}, pods: 2, requests: {{cpu: 2}}, runs: 10s}}
"""
REPAIR = MAINTENANCE.replace("amounts: [{flavor: default, resources: {cpu: 2}}]", "nodes: {names: [n-1]}")


def test_a_gang_that_may_run_into_a_window_of_nodes_waits_until_it_ends() -> None:
    plain = spans(run_of(GANGS, queue("q", 8)))
    assert (plain["short"][1], plain["long"][1]) == (51, 110)
    kept = spans(run_of(GANGS, queue("q", 8), REPAIR))
    assert (kept["short"][1], kept["long"][1]) == (51, 250)
    assert kept["other"][1] == 180, "in a cluster another scheduler places it, and knows no Reservations"
