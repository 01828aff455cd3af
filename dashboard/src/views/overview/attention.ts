// What needs attention: states of queues, workloads and nodes that do not end by themselves.
import type { ClusterQueueSummary, Overview, WorkloadState } from "../../api/types";
import { queueAddress } from "../../format/addresses";
import { clusterQueuesOf } from "../../format/quota";
import { plural } from "../../format/words";

export interface Attention {
  subject: string;
  name: boolean; // whether the subject is the name of an object
  text: string;
  to: string;
}

const OF_WORKLOADS: [WorkloadState, string][] = [
  ["Stuck", "admitted, with pods that cannot run"],
  ["NeverFits", "waiting for more than there is: can never start unchanged"],
  ["Evicted", "evicted: their pods end, or they are tried again later"],
  ["Deactivated", "deactivated: resume or delete them"],
];

/** Return what needs attention, queues in the order of the tree first. */
export function attention(overview: Overview): Attention[] {
  const queues = clusterQueuesOf(overview.cohorts);
  const found = queues.flatMap(ofQueue);
  for (const [state, text] of OF_WORKLOADS) {
    const count = overview.counts.states[state] ?? 0;
    if (count > 0) {
      const subject = plural(count, "workload");
      found.push({ subject, name: false, text, to: `/workloads?state=${state}` });
    }
  }
  const lost = overview.nodes ? overview.nodes.nodes - overview.nodes.ready : 0;
  if (lost > 0) found.push({ subject: plural(lost, "node"), name: false, text: "not ready", to: "/nodes" });
  for (const cluster of overview.workerClusters) {
    if (cluster.connected === false)
      found.push({ subject: cluster.name, name: true, text: "worker cluster not connected", to: "/" });
  }
  return found;
}

function ofQueue(queue: ClusterQueueSummary): Attention[] {
  const to = queueAddress(queue.name);
  const waiting = queue.pending > 0 ? `; ${plural(queue.pending, "workload")} waiting` : "";
  if (queue.stopPolicy && queue.stopPolicy !== "None") {
    return [{ subject: queue.name, name: true, text: `stopped (${queue.stopPolicy})${waiting}`, to }];
  }
  if (!queue.active)
    return [{ subject: queue.name, name: true, text: `inactive: ${queue.inactiveReason}${waiting}`, to }];
  if (queue.pending > 0 && queue.reserving === 0) {
    return [
      {
        subject: queue.name,
        name: true,
        text: `nothing of it has quota, and ${plural(queue.pending, "workload")} ${queue.pending === 1 ? "waits" : "wait"}`,
        to,
      },
    ];
  }
  return [];
}
