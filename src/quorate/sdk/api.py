"""What ``import quorate`` offers: functions on the cluster of a kubeconfig, and simulations."""

from pathlib import Path

from quorate.sdk.cluster import Cluster, Manifests
from quorate.sdk.explanations import Ended, Explanations
from quorate.sdk.scenario import Scenario
from quorate.sdk.simulation import simulate
from quorate.simulate.inputs.world import InvalidWorld

__all__ = ["Cluster", "InvalidWorld", "Scenario", "explain", "simulate", "submit", "wait"]


def submit(
    manifests: Manifests,
    *,
    queue: str = "",
    namespace: str = "",
    kubeconfig: str | Path | None = None,
    context: str = "",
) -> tuple[str, ...]:
    """Apply manifests and return the jobs among them, as ``KIND.GROUP/NAME``; see ``Cluster.submit``."""
    return Cluster(kubeconfig, context, namespace).submit(manifests, queue=queue)


def wait(
    job: str,
    timeout: float = 3600.0,
    *,
    namespace: str = "",
    kubeconfig: str | Path | None = None,
    context: str = "",
    check: bool = False,
) -> Ended:
    """Return how the job ``KIND/NAME`` ended, once it has; see ``Cluster.wait``."""
    return Cluster(kubeconfig, context, namespace).wait(job, timeout, check=check)


def explain(
    *names: str, namespace: str = "", kubeconfig: str | Path | None = None, context: str = ""
) -> Explanations:
    """Return why objects are in their state, and what would let them start; see ``Cluster.explain``."""
    return Cluster(kubeconfig, context, namespace).explain(*names)
