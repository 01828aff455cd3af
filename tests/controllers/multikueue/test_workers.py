"""The registry of worker clusters."""

import random

from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.rest.config import RestConfig


def a_worker(name: str) -> Worker:
    client = Client(RestConfig("http://127.0.0.1:1"), random.Random(1))
    return Worker(name, client, Informer(client, WORKLOAD_COPIES))


def test_the_first_loss_counts_until_the_worker_is_connected_again() -> None:
    workers, changed = Workers(), list[str]()
    workers.subscribe_workers(changed.append)
    assert workers.lost_since("a") is None
    workers.lost("a", 10.0)
    workers.lost("a", 20.0)
    assert (workers.lost_since("a"), changed) == (10.0, ["a"])
    worker = a_worker("a")
    workers.connected(worker)
    assert (workers.get("a"), workers.lost_since("a"), list(workers)) == (worker, None, [worker])
    workers.lost("a", 30.0)
    workers.lost("a", 40.0)
    assert (workers.get("a"), workers.lost_since("a"), changed) == (None, 30.0, ["a", "a", "a"])
    workers.removed("a")
    assert (workers.lost_since("a"), changed) == (None, ["a", "a", "a", "a"])
