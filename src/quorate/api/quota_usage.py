"""What one pod uses of the ResourceQuotas of its namespace, by every name a quota may limit it under.

Source: the usage of a pod that Kubernetes' quota evaluator reckons, with extended resources under their
plain name as well, as Volcano writes ``minResources`` of its pod groups.
"""

from typing import Final

from quorate.api.core import Resources
from quorate.api.quantity import Quantity
from quorate.api.requests import AskingTogether, pod_limits, pod_requests

_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")  # the resources whose limits a quota counts
_ONE: Final = Quantity.of_units(1)


def quota_usage(spec: AskingTogether) -> Resources:
    """The amounts by name, such as ``cpu``, ``requests.cpu``, ``limits.cpu``, ``pods``, ``count/pods``."""
    requests = pod_requests(spec)
    limits = pod_limits(spec)
    return {
        **requests,
        **{f"requests.{name}": amount for name, amount in requests.items()},
        **{f"limits.{name}": limits[name] for name in _LIMITED if name in limits},
        "pods": _ONE,
        "count/pods": _ONE,
    }
