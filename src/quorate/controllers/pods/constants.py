"""Kueue's labels, annotations, gates and finalizers of pods, groups and their owners."""

from typing import Final

from quorate.api.names import kueue

MANAGED: Final = kueue.MANAGED
ADMISSION_GATE: Final = kueue.ADMISSION_GATE

GROUP_NAME: Final = kueue.POD_GROUP_NAME
TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
MAX_NOT_READY: Final = "kueue.x-k8s.io/pod-group-max-not-ready-count"
FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
RETRIABLE: Final = "kueue.x-k8s.io/retriable-in-group"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"  # the framework of the owner
IS_GROUP: Final = kueue.IS_GROUP_WORKLOAD
FORCEFULLY: Final = "kueue.x-k8s.io/safe-to-forcefully-delete"

OWNER_KIND: Final = kueue.OWNER_KIND
OWNER_NAME: Final = kueue.OWNER_NAME
COMPONENT_INDEX: Final = "kueue.x-k8s.io/component-workload-index"

DEPLOYMENT: Final = "deployment"  # suspending parent of pods that are admitted individually

TERMINATION_TARGET: Final = "TerminationTarget"  # condition of a pod that is being stopped
