"""Carrying out the plans for plain pods and for groups of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.kueue import Workload
from quorate.api.meta import Key, matches_selector
from quorate.controllers.informers import ByName
from quorate.controllers.jobs.ancestry import Ancestry, NotSeen
from quorate.controllers.pods import names
from quorate.controllers.pods.adoption import Adoption, adopt
from quorate.controllers.pods.group import decide_group
from quorate.controllers.pods.objects import (
    PODS,
    QueuedPod,
    asks_to_be_queued,
    group_name_of,
    is_deleted,
    is_managed,
)
from quorate.controllers.pods.plan import IDLE, Catalogue, PodPlan, PodRules
from quorate.controllers.pods.single import decide_pod
from quorate.controllers.shell import Shell
from quorate.controllers.writes import Apply, Create, Delete, Patch, Write, send, send_side_by_side
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import WORKLOADS, reference_to

WORKERS: Final = 16  # a run mostly waits for the answers to its writes
BATCH_S: Final = 0.5  # the pods of a group come and go together: one look for many
PATIENCE_S: Final = 1.0  # they end together as well
OWNER_S: Final = 1.0  # after so long an owner that was not seen is looked for again
ECHO_S: Final = 5.0  # how late the watch may deliver our own writes before they are doubted

_GROUP: Final = "group"  # index of pods by the key of their group
_OWNER_POD: Final = "controlled by a pod"  # index of workloads by the key of their pod

_Version = tuple[str, str]  # a kind, and the resource version of one object of it; "" where there was none


class PodController:
    """Keeps single pods, by their keys, and groups, by namespace and name, in step with their workloads."""

    def __init__(self, shell: Shell, pods: Informer[QueuedPod], ancestry: Ancestry) -> None:
        self._shell = shell
        self._pods = pods
        self._workloads = shell.informers.workloads
        self._ancestry = ancestry
        self._rules = _rules(shell.configuration)
        self._catalogue = Catalogue(
            flavors=ByName(shell.informers.flavors),
            workload_classes=ByName(shell.informers.workload_classes),
            pod_classes=ByName(shell.informers.pod_classes),
        )
        self._log = logger(__name__)
        self.single = _Unit(shell, "pods", self._reconcile_pod)
        self.groups = _Unit(shell, "pods.groups", self._reconcile_group)
        self._ungated: set[Key] = set()  # pods that were told of, so that they are told of once
        self._follow()
