"""How much of what a ResourceQuota limits is used: the server admits by it, a controller recounts by it.

Which pods a quota counts at all is for ``scopes`` to say.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.core import Pod, Resources
from quorate.api.core.pod_resources import pod_limits, pod_requests, sum_resources
from quorate.api.quantity import Quantity

# Names from before count/<resource>.<group> that count objects of one kind.
PLAIN_COUNTS: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)


def usage(limited: Iterable[str], pods: Iterable[Pod], counts: Mapping[str, int]) -> Resources:
    """How much is used of each limited name; pods that have ended use nothing but their place in a count.

    ``counts`` is by plural and group: ``pods``, ``jobs.batch``.  Names of things nobody counts are left out.
    """
    living = [pod.spec for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
    requests = sum_resources(map(pod_requests, living))
    limits = sum_resources(map(pod_limits, living))
    used: Resources = {}
    for name in limited:
        kind, _, resource = name.partition(".")
        if name == "pods":
            used[name] = Quantity.of_units(len(living))
        elif name.startswith("count/"):
            used[name] = Quantity.of_units(counts.get(name.removeprefix("count/"), 0))
        elif name in PLAIN_COUNTS:
            used[name] = Quantity.of_units(counts.get(name, 0))
        elif kind == "limits":
            used[name] = limits.get(resource, Quantity(0))
        elif kind == "requests":
            used[name] = requests.get(resource, Quantity(0))
        elif name in ("cpu", "memory", "ephemeral-storage"):
            used[name] = requests.get(name, Quantity(0))
    return used
