"""Reservations in virtual time, which begins at 2026-01-05T00:00:00Z."""

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
