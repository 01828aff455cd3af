"""Names of MultiKueue: the admission check, the marks of remote objects, and the dispatchers."""

from typing import Final

CONTROLLER: Final = "kueue.x-k8s.io/multikueue"  # of admission checks, and ``spec.managedBy`` of jobs
ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"  # a label of remote objects: the manager that made them
ORIGIN_UID: Final = "kueue.x-k8s.io/multikueue-origin-uid"  # an annotation: the uid of the local object
WORKER_POD: Final = "kueue.x-k8s.io/multikueue-worker-workload-pod"  # a label of pods of remote jobs: "true"
PREEMPTION_GATE: Final = "kueue.x-k8s.io/multikueue"  # of remote workloads, which preempt in one cluster only

ALL_AT_ONCE: Final = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL: Final = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
EARLIEST_START: Final = "quorate.dev/multikueue-dispatcher-earliest-start"

# Conditions of a dispatched workload.
CLUSTER_CHOICE: Final = "quorate.dev/ClusterChoice"  # why clusters are nominated, and since when
LAST_CLUSTER: Final = "quorate.dev/LastCluster"  # the cluster chosen last; also of an evicted workload
