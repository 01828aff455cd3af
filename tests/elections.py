"""Leader election of processes that a test runs as tasks."""

from collections.abc import Callable

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.manager.leader_election import Candidate, JoinElection, LeaderElector, LeaseTimings


def in_this_loop(client: Client, clock: Clock, new_identity: Callable[[], str]) -> JoinElection:
    """Return how to take part in elections in the event loop of the work."""

    def join(lease: Key, timings: LeaseTimings) -> Candidate:
        return lambda elected: LeaderElector(client, clock, lease, new_identity(), timings).hold(elected)

    return join
