"""Labels, annotations, scheduling gates and finalizers of Kueue."""

RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"  # a finalizer of flavors, queues and checks
CRON_JOB = ("batch", "CronJob")  # group and kind of an object with jobs that are queued
QUEUE_NAME = "kueue.x-k8s.io/queue-name"  # a label, or an annotation in older manifests
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
MAX_EXEC_TIME_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
JOB_UID = "kueue.x-k8s.io/job-uid"
POD_SET = "kueue.x-k8s.io/podset"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"  # "namespace/name" of a workload
POD_GROUP_NAME = (
    "kueue.x-k8s.io/pod-group-name"  # a label of pods, or an annotation if it is too long for a label
)
MANAGED = "kueue.x-k8s.io/managed"  # on a plain pod in a queue: a label ("true") and the finalizer
# On the Workload of a set: "group/version, Kind=kind" and the name of the set.
OWNER_KIND = "kueue.x-k8s.io/job-owner-gvk"
OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
IS_GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"  # on the Workload of a pod group: "true"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
ADMISSION_GATE = "kueue.x-k8s.io/admission"  # a scheduling gate: the pod waits for quota
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"  # a scheduling gate: the pod waits for its place
STOPPING = "kueue.x-k8s.io/stopping"
