"""Further cases of the webhooks, in the notation of the vectors."""

from typing import Any

import pytest
import yaml

from tests.gang.vectors_admission import run_admission

Json = dict[str, Any]

OURS = """
- title: a queue that does not exist
  given: {webhook: podgroups/validate, object: {name: a, namespace: ns1, queue: x}}
  expect: {allowed: false, reason: QueueNotOpen}
- title: a group by its own numbers
  given: {webhook: podgroups/validate, object: {name: a, namespace: ns1, minMember: -1}}
  expect: {allowed: false}
- title: an update of a group does not look at its queue
  given:
    webhook: podgroups/validate
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, queue: closed, minMember: 1}
    object: {name: a, namespace: ns1, queue: closed, minMember: 2}
    queues: [{name: closed, state: Closed}]
  expect: {allowed: true}
- title: waiting groups do not fill a queue
  given:
    webhook: podgroups/validate
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns2, queue: q, phase: Pending}]
  expect: {allowed: true}
- title: unless limits are hard
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns2, queue: q, phase: Pending}]
  expect: {allowed: false, reason: QueuePodGroupLimit}
- title: a completed group fills nothing
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns1, queue: q, phase: Completed}]
  expect: {allowed: true}
- title: the limit of a queue above counts all leaves
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: left}
    queues: [{name: org, maxPodGroups: 1}, {name: left, parent: org}, {name: right, parent: org}]
    podGroups: [{name: b, namespace: ns1, queue: right, phase: Running}]
  expect: {allowed: false, reason: QueuePodGroupLimit}
- title: a group with a queue of its own keeps it
  given:
    webhook: podgroups/mutate
    object: {name: a, namespace: ns1, queue: mine}
    namespaces: [{name: ns1, annotations: {"scheduling.volcano.sh/queue-name": team}}]
  expect: {allowed: true, patch: {}}
- title: no queue at all is the default one
  given:
    webhook: podgroups/mutate
    object: {name: a, namespace: ns1}
    namespaces: [{name: ns1, annotations: {"scheduling.volcano.sh/queue-name": team}}]
  expect: {allowed: true, patch: {spec.queue: team}}
- title: a queue that says everything is left as it is
  given: {webhook: queues/mutate, object: {name: q, weight: 3, reclaimable: false}}
  expect: {allowed: true, patch: {}}
- title: a place in the tree of weights begins at the root
  given:
    webhook: queues/mutate
    object:
      {name: q, weight: 1, reclaimable: true,
       annotations: {volcano.sh/hierarchy: sci/dev, volcano.sh/hierarchy-weights: 2/3}}
  expect:
    allowed: true
    patch:
      metadata.annotations.volcano.sh/hierarchy: root/sci/dev
      metadata.annotations.volcano.sh/hierarchy-weights: 1/2/3
- title: and is left alone where it does
  given:
    webhook: queues/mutate
    object:
      {name: q, weight: 1, reclaimable: true,
       annotations: {volcano.sh/hierarchy: root/dev, volcano.sh/hierarchy-weights: 1/3}}
  expect: {allowed: true, patch: {}}
- title: the default queue stays
  given: {webhook: queues/validate, operation: DELETE, object: {name: default}}
  expect: {allowed: false, reason: ProtectedQueue}
- title: an unused queue may be deleted
  given: {webhook: queues/validate, operation: DELETE, object: {name: q}}
  expect: {allowed: true}
- title: an unknown strategy
  given: {webhook: queues/validate, object: {name: q, dequeueStrategy: lifo}}
  expect: {allowed: false}
- title: a strategy
  given: {webhook: queues/validate, object: {name: q, dequeueStrategy: fifo, maxPodGroups: 0}}
  expect: {allowed: true}
- title: plugins bring what they need
  given: {webhook: jobs/mutate, object: {name: j, plugins: {mpi: []}, tasks: [{name: w, replicas: 1}]}}
  expect:
    allowed: true
    patch:
      spec.queue: default
      spec.schedulerName: volcano
      spec.maxRetry: 3
      spec.minAvailable: 1
      spec.tasks[0].minAvailable: 1
      spec.plugins.svc: []
      spec.plugins.ssh: []
- title: partitions have a minimum, and it is that of their task
  given:
    webhook: jobs/mutate
    object:
      name: j
      queue: q
      schedulerName: quorate
      maxRetry: 1
      tasks:
      - {name: w, replicas: 8, partitionPolicy: {totalPartitions: 4, partitionSize: 2, minPartitions: 3}}
  expect: {allowed: true, patch: {"spec.tasks[0].minAvailable": 6, spec.minAvailable: 6}}
- title: a job that says everything is left as it is
  given:
    webhook: jobs/mutate
    object:
      {name: j, queue: q, schedulerName: quorate, maxRetry: 1, minAvailable: 1,
       tasks: [{name: w, replicas: 2, minAvailable: 1}]}
  expect: {allowed: true, patch: {}}
- title: a job is judged with its defaults
  given: {webhook: jobs/validate, object: {name: j, tasks: [{replicas: 2}]}}
  expect: {allowed: true}
- title: a job into the root
  given: {webhook: jobs/validate, object: {name: j, queue: root, tasks: [{replicas: 2}]}}
  expect: {allowed: false, reason: QueueNotOpen}
- title: more replicas for a running job
  given:
    webhook: jobs/validate
    operation: UPDATE
    oldObject: {name: j, tasks: [{name: w, replicas: 2, minAvailable: 1}]}
    object: {name: j, tasks: [{name: w, replicas: 5, minAvailable: 2}], minAvailable: 2}
  expect: {allowed: true}
- title: another queue for a running job
  given:
    webhook: jobs/validate
    operation: UPDATE
    oldObject: {name: j, queue: a, tasks: [{name: w, replicas: 2}]}
    object: {name: j, queue: b, tasks: [{name: w, replicas: 2}]}
  expect: {allowed: false}
- title: an update that raises nothing is allowed, however little there is
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, minResources: {requests.cpu: 9}}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: true}
- title: one that raises something is not
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, minResources: {cpu: 8}}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {requests.cpu: 8}}]
  expect: {allowed: false, reason: MinResourcesExceedsQuota}
- title: no minimum before means that all of it is raised
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: false, reason: MinResourcesExceedsQuota}
- title: a group in strict mode is not counted twice when it changes
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    mode: strict
    oldObject: {name: a, namespace: ns1, minResources: {cpu: 5}}
    object: {name: a, namespace: ns1, minResources: {cpu: 8}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups: [{name: a, namespace: ns1, minResources: {cpu: 5}}]
  expect: {allowed: true}
- title: nor are completed groups, and those of other namespaces
  given:
    webhook: podgroups/min-resources
    mode: strict
    object: {name: a, namespace: ns1, minResources: {cpu: 8}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups:
    - {name: b, namespace: ns1, phase: Completed, minResources: {cpu: 5}}
    - {name: c, namespace: ns2, minResources: {cpu: 5}}
  expect: {allowed: true}
- title: off is off
  given:
    webhook: podgroups/min-resources
    mode: "off"
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: true}
- title: a member takes what is reserved for its group
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 4}}]
    podGroups: [{name: a, namespace: ns1, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: members that exist are not reserved for once more
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: web, namespace: ns1, cpu: 2}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: ns1, phase: Running, minResources: {cpu: 4}, podRequests: {cpu: 2}}]
  expect: {allowed: true}
- title: a member beyond the minimum competes like a stranger
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-9, namespace: ns1, cpu: 2, group: a}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 4}}]
    podGroups:
    - {name: a, namespace: ns1, phase: Running, minResources: {cpu: 4}, podRequests: {cpu: 4}}
    - {name: b, namespace: ns1, phase: Inqueue, minResources: {cpu: 3}}
  expect: {allowed: false, reason: QuotaReserved}
- title: nothing is reserved for a group that waits
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: web, namespace: ns1, cpu: 8}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups: [{name: a, namespace: ns1, phase: Pending, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: pods of daemons go through
  given:
    webhook: pods/min-resources
    object:
      {kind: Pod, name: d, namespace: ns1, cpu: 2,
       ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: ns1, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: and pods of the system
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: d, namespace: kube-system, cpu: 2}
    quotas: [{namespace: kube-system, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: kube-system, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: operators that create pods early are let be
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    podGroups: [{name: a, namespace: ns1, phase: Pending}]
  expect: {allowed: true}
- title: unless that is asked for
  given:
    webhook: pods/min-resources
    rejectPodsOfPendingGroups: true
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    podGroups: [{name: a, namespace: ns1, phase: Pending}]
  expect: {allowed: false, reason: PodGroupPending}
- title: of pods that we place
  given:
    webhook: pods/min-resources
    rejectPodsOfPendingGroups: true
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a, schedulerName: default-scheduler}
    podGroups: [{name: a, namespace: ns1}]
  expect: {allowed: true}
"""


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["title"]) for case in yaml.load(OURS, Loader=yaml.CSafeLoader)]
)
def test_webhook_response(case: Json) -> None:
    assert run_admission(case["given"], case["expect"]) == []
