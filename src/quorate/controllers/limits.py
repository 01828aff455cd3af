"""Limits of the queueing controllers."""

from typing import Final

# Concurrent reconciles, by default: a worker mostly waits for the responses to its writes
WORKERS: Final = 16  # of a kind with many objects
FEW_WORKERS: Final = 4  # of a kind with few objects, or few changes
# Of all admissions, or of the pods of one workload; the client sends no more at once.
WRITES_IN_FLIGHT: Final = 100
MAX_HOSTS: Final = 200_000  # of a task of a Volcano Job, in one list; no object of 1 MiB holds more
JOB_WRITES_IN_FLIGHT: Final = 32  # creations or deletions of pods of one Volcano Job
JOB_BYTES_IN_FLIGHT: Final = 2**20  # of one Volcano Job: they are encoded at the same time

# One event at a time, as Kueue's recorder: its rate falls by itself when the server is slow, and with it what
# events take from the writes that admit workloads.
EVENT_WORKERS: Final = 1

# Admission
CYCLE_SLICE_S: Final = 0.01  # of a cycle, before other tasks run; a head that takes longer is not interrupted
WRITES_IN_ONE_TURN: Final = 8  # that begin, before other tasks run: each takes up to a millisecond
CYCLE_SHARE: Final = 0.025  # of the time, at most, except for long cycles: the pause is limited
FOLLOWER_UPDATE_S: Final = 1.0  # between updates of requests in a process that does not decide
MAX_CYCLE_PAUSE_S: Final = 0.1  # the longest pause after a cycle
EDIT_BATCH_S: Final = 0.5  # quota edits in quick succession are decided about together; Kueue: a second
REBUILD_SLICE: Final = 100  # objects of a rebuild of the model, before other tasks run

# A difference that returns at once is not repaired by another rebuild, after which all is evaluated anew.
REBUILD_INTERVAL_S: Final = 3600.0
MAX_LOGGED_DIFFERENCES: Final = 20  # of one audit; the number of all is logged, too

# Reasons of pending workloads
REASON_DELAY_S: Final = 1.0  # a reason that is outdated sooner is never written
REPEATED_REASON_DELAY_S: Final = 5.0  # between two reasons of one workload
MAX_REASON_DELAY_S: Final = 20.0  # after so long a reason is written although other workloads are admitted
UNEVALUATED_AT_ONCE: Final = 20  # unevaluated workloads in one batch, while none is admitted
UNEVALUATED_INTERVAL_S: Final = 1.0  # between batches; also the pause in admissions that ends "busy"
BUSY_INTERVAL_S: Final = 5.0  # between batches of one while workloads are admitted

# Statuses of queues
STATUS_PACE_S: Final = 1.0  # between two reconciles of one queue or cohort
# For few and for many queues, while each reconcile finds a difference.
MAX_STATUS_INTERVAL_S: Final = (5.0, 30.0)
INTERVAL_FACTOR: Final = 4.0  # by which the interval grows
STATUS_WRITE_SHARE: Final = 0.05  # of the time, for the writes of all queues, as far as this range allows
WRITE_SMOOTHING: Final = 0.2  # weight of the last write in the mean duration

# Pods that use more than their quota
OUTSIDE_GRACE_S: Final = 5.0  # how long a use lasts before it is recorded
OUTSIDE_DELAY_S: Final = 1.0  # changes of the pods of a job within this time cause one evaluation
POD_OWNER_RETRY_S: Final = 2.0  # before an owner of a pod that was not found is looked up again

# Jobs
OWNER_RETRY_S: Final = 1.0  # before an owner that was not found is looked up again
OWNER_CHAIN_RETRY_S: Final = 60.0  # before a broken chain of owners is followed again
INVALID_RETRY_S: Final = 60.0  # before a rejected workload is created again, unless the job changes
REFUSED_JOB_RETRY_S: Final = 2.0  # before a refused change of a job is tried again for the first time
# Before a refused change of a set is tried again, unless something changes before.
REFUSED_SET_RETRY_S: Final = 10.0
# Until the pods of a new job are counted; its creation time has the precision of a second.
PODS_COUNTED_S: Final = 3.0
STOPPED_PODS_RETRY_S: Final = 1.0  # before the pods of a stopped job are listed again
NEW_WORKLOAD_S: Final = 1.0  # for which the lifecycle leaves a new workload to the admission cycle
PLAN_DEFER_S: Final = 1.0  # pods of one job tend to end together: one write can report many
MAX_DEPTH: Final = 10  # owners of one job that are followed, as in Kueue
MAX_REMEMBERED_OWNERS: Final = 10_000  # metadata of intermediate objects, a few hundred bytes each
# One small request for each kind that is off and that the cluster does not serve.
UNSERVED_INTERVAL_S: Final = 60.0
NATIVE_GANGS_CHECK_S: Final = 10.0  # how long an answer about native pod groups holds
NATIVE_GROUPS_RETRY_S: Final = 1.0  # until it is known which native pod groups exist
MAX_POD_SETS: Final = 18  # of a Workload, in its definition
MAX_NAME: Final = 253  # characters of the name of an object
MAX_LABEL: Final = 63  # characters of the value of a label
MAX_REPLICAS: Final = 10_000  # of a LeaderWorkerSet: each change of it computes all their workloads
MAX_REMOTE_GROUPS: Final = 1000  # replicas of a LeaderWorkerSet that are followed in a worker cluster

# Pods
GROUP_DELAY_S: Final = 0.5  # the pods of a group are created and deleted together: reconcile once for many
RECOVERY_GRACE_S: Final = 60.0  # after the grace period of a pod on a failed node

# Provisioning
PROVISIONING_RETRY_S: Final = 1.0  # while an earlier request or template is being deleted
# Recognized if the name of a request is hashed and does not contain the number.
MAX_HASHED_ATTEMPTS: Final = 100

# Volcano's objects
ORPHAN_TIMEOUT_S: Final = 5.0  # how long a command waits for its target, which another watch delivers
HYPER_NODE_DELAY_S: Final = 1.0  # from the first of several changes of nodes
# Until a pod group or HyperNode that the API server refused is written again.
OWNED_OBJECTS_CHECK_S: Final = 5.0  # how long the objects of a Volcano Job are taken to exist
REFUSED_GROUP_RETRY_S: Final = 30.0
OWNER_CACHE_S: Final = 1.0  # how long an owner is cached: its pods are created together
GROUP_OWNER_CHECK_S: Final = 60.0  # how often the owner of a group that waits or has no pods is read
BYTES_PER_POD: Final = 128  # of the pods of a Volcano Job, in the estimate of the work on it
MAX_CONDITIONS: Final = 100  # the newest are kept: a job may change between phases without end
# Of one Volcano Job; a larger one could never be placed, and would delay all other jobs.
MAX_JOB_PODS: Final = 100_000
MAX_JOB_EVENTS: Final = 5  # validation events on one job; the rest appear once these are corrected
MAX_CREATIONS: Final = 10_000  # pods created by one plan; the next plan creates more
POD_BYTES: Final = 3 * 2**20  # of a request body: an API server reads no larger one
TASK_RETRIES: Final = 3  # container restarts in a task before the task counts as failed

RESERVATION_RETRY_S: Final = 60.0  # between two searches for workloads to evict, or for missing nodes
