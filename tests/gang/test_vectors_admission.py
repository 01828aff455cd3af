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
- title: a negative minMember is refused
  given: {webhook: podgroups/validate, object: {name: a, namespace: ns1, minMember: -1}}
  expect: {allowed: false}
- title: an update of a group does not check its queue
  given:
    webhook: podgroups/validate
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, queue: closed, minMember: 1}
    object: {name: a, namespace: ns1, queue: closed, minMember: 2}
    queues: [{name: closed, state: Closed}]
  expect: {allowed: true}
- title: pending groups do not count for the limit of a queue
  given:
    webhook: podgroups/validate
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns2, queue: q, phase: Pending}]
  expect: {allowed: true}
- title: pending groups count if the limit is hard
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns2, queue: q, phase: Pending}]
  expect: {allowed: false, reason: QueuePodGroupLimit}
- title: completed groups do not count
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: q}
    queues: [{name: q, maxPodGroups: 1}]
    podGroups: [{name: b, namespace: ns1, queue: q, phase: Completed}]
  expect: {allowed: true}
- title: the limit of a parent queue counts all queues below it
  given:
    webhook: podgroups/validate
    maxPodGroupsHard: true
    object: {name: a, namespace: ns1, queue: left}
    queues: [{name: org, maxPodGroups: 1}, {name: left, parent: org}, {name: right, parent: org}]
    podGroups: [{name: b, namespace: ns1, queue: right, phase: Running}]
  expect: {allowed: false, reason: QueuePodGroupLimit}
- title: a group with a queue keeps it
  given:
    webhook: podgroups/mutate
    object: {name: a, namespace: ns1, queue: mine}
    namespaces: [{name: ns1, annotations: {"scheduling.volcano.sh/queue-name": team}}]
  expect: {allowed: true, patch: {}}
- title: a group without a queue gets the default queue
  given:
    webhook: podgroups/mutate
    object: {name: a, namespace: ns1}
    namespaces: [{name: ns1, annotations: {"scheduling.volcano.sh/queue-name": team}}]
  expect: {allowed: true, patch: {spec.queue: team}}
- title: a complete queue is not changed
  given: {webhook: queues/mutate, object: {name: q, weight: 3, reclaimable: false}}
  expect: {allowed: true, patch: {}}
- title: the root is added to a hierarchy path
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
- title: a hierarchy path from the root is not changed
  given:
    webhook: queues/mutate
    object:
      {name: q, weight: 1, reclaimable: true,
       annotations: {volcano.sh/hierarchy: root/dev, volcano.sh/hierarchy-weights: 1/3}}
  expect: {allowed: true, patch: {}}
- title: the default queue may not be deleted
  given: {webhook: queues/validate, operation: DELETE, object: {name: default}}
  expect: {allowed: false, reason: ProtectedQueue}
- title: an unused queue may be deleted
  given: {webhook: queues/validate, operation: DELETE, object: {name: q}}
  expect: {allowed: true}
- title: an unknown strategy
  given: {webhook: queues/validate, object: {name: q, dequeueStrategy: lifo}}
  expect: {allowed: false}
- title: a known strategy
  given: {webhook: queues/validate, object: {name: q, dequeueStrategy: fifo, maxPodGroups: 0}}
  expect: {allowed: true}
- title: plugins add the plugins that they need
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
- title: partitions set the minimum of their task
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
- title: a complete job is not changed
  given:
    webhook: jobs/mutate
    object:
      {name: j, queue: q, schedulerName: quorate, maxRetry: 1, minAvailable: 1,
       tasks: [{name: w, replicas: 2, minAvailable: 1}]}
  expect: {allowed: true, patch: {}}
- title: a job is validated with its defaults
  given: {webhook: jobs/validate, object: {name: j, tasks: [{replicas: 2}]}}
  expect: {allowed: true}
- title: a job in the root queue
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
- title: an update without more minResources is allowed under any quota
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, minResources: {requests.cpu: 9}}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: true}
- title: an update with more minResources is not
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1, minResources: {cpu: 8}}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {requests.cpu: 8}}]
  expect: {allowed: false, reason: MinResourcesExceedsQuota}
- title: an update from no minResources counts as more
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    oldObject: {name: a, namespace: ns1}
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: false, reason: MinResourcesExceedsQuota}
- title: in strict mode an updated group counts once
  given:
    webhook: podgroups/min-resources
    operation: UPDATE
    mode: strict
    oldObject: {name: a, namespace: ns1, minResources: {cpu: 5}}
    object: {name: a, namespace: ns1, minResources: {cpu: 8}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups: [{name: a, namespace: ns1, minResources: {cpu: 5}}]
  expect: {allowed: true}
- title: in strict mode completed groups and other namespaces do not count
  given:
    webhook: podgroups/min-resources
    mode: strict
    object: {name: a, namespace: ns1, minResources: {cpu: 8}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups:
    - {name: b, namespace: ns1, phase: Completed, minResources: {cpu: 5}}
    - {name: c, namespace: ns2, minResources: {cpu: 5}}
  expect: {allowed: true}
- title: mode off allows everything
  given:
    webhook: podgroups/min-resources
    mode: "off"
    object: {name: a, namespace: ns1, minResources: {cpu: 9}}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
  expect: {allowed: true}
- title: a member uses the reservation of its group
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 4}}]
    podGroups: [{name: a, namespace: ns1, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: existing members are subtracted from the reservation
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: web, namespace: ns1, cpu: 2}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: ns1, phase: Running, minResources: {cpu: 4}, podRequests: {cpu: 2}}]
  expect: {allowed: true}
- title: a member beyond the minimum has no reservation
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-9, namespace: ns1, cpu: 2, group: a}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 4}}]
    podGroups:
    - {name: a, namespace: ns1, phase: Running, minResources: {cpu: 4}, podRequests: {cpu: 4}}
    - {name: b, namespace: ns1, phase: Inqueue, minResources: {cpu: 3}}
  expect: {allowed: false, reason: QuotaReserved}
- title: a pending group has no reservation
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: web, namespace: ns1, cpu: 8}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}}]
    podGroups: [{name: a, namespace: ns1, phase: Pending, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: pods of daemon sets are allowed
  given:
    webhook: pods/min-resources
    object:
      {kind: Pod, name: d, namespace: ns1, cpu: 2,
       ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: u, controller: true}]}
    quotas: [{namespace: ns1, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: ns1, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: pods of namespace kube-system are allowed
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: d, namespace: kube-system, cpu: 2}
    quotas: [{namespace: kube-system, name: rq, hard: {cpu: 8}, used: {cpu: 3}}]
    podGroups: [{name: a, namespace: kube-system, phase: Inqueue, minResources: {cpu: 4}}]
  expect: {allowed: true}
- title: pods of pending groups are allowed by default
  given:
    webhook: pods/min-resources
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    podGroups: [{name: a, namespace: ns1, phase: Pending}]
  expect: {allowed: true}
- title: pods of pending groups are refused with rejectPodsOfPendingGroups
  given:
    webhook: pods/min-resources
    rejectPodsOfPendingGroups: true
    object: {kind: Pod, name: a-0, namespace: ns1, cpu: 2, group: a}
    podGroups: [{name: a, namespace: ns1, phase: Pending}]
  expect: {allowed: false, reason: PodGroupPending}
- title: pods of another scheduler are allowed with rejectPodsOfPendingGroups
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
