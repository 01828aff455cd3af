"""The observable state of one process of the controllers: its role, readiness, view and recorder."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from quorate.api.configuration.metric_labels import CustomLabel
from quorate.observe.custom_labels import CustomLabels
from quorate.observe.estimates import Estimates
from quorate.observe.recorder import Recorder
from quorate.observe.view import View

Role = Literal["standalone", "leader", "follower"]


class Replica:
    """Written by ``controllers.process``, read by probes, metrics and the visibility API."""

    def __init__(self, role: Role, labels: Sequence[CustomLabel] = ()) -> None:
        """``labels``: the custom labels of its series."""
        self.role: Role = role
        # Set once everything is listed.  A change of role does not clear it: the previous view is served
        # until the new role has listed everything.
        self.ready = asyncio.Event()
        self.view: View | None = None  # set once everything is listed
        self.rebuilt_at: float | None = None  # when an audit last found the model wrong and it was rebuilt
        # Cluster queue, worker cluster, and the status of its condition Active.
        self.worker_clusters: Callable[[], Iterable[tuple[str, str, str]]] = tuple
        self.estimates = Estimates()
        self.recorder = Recorder(lambda: self.role, CustomLabels(labels))

    def set_view(self, view: View) -> None:
        self.view = view
        self.ready.set()
