// What needs attention: states of queues, workloads and nodes that do not end by themselves.
import type { ClusterQueueSummary, Overview } from "../../api/types";
import { queueAddress } from "../../format/addresses";
import { clusterQueuesOf } from "../../format/quota";
import { plural } from "../../format/words";

export interface Attention {
  subject: string;
  name: boolean; // whether the subject is the name of an object
  text: string;
  to: string;
}

/** Return what needs attention, queues in the order of the tree first. */
export function attention(overview: Overview): Attention[] {
  const queues = clusterQueuesOf(overview.cohorts);
  const found = queues.flatMap(ofQueue);
  const { evicted, inactive, neverFits, stuck } = overview.counts;
  if (stuck > 0) {
    found.push({
      subject: plural(stuck, "workload"),
      name: false,
      text: "admitted, with pods that cannot run",
      to: "/workloads?state=Stuck",
    });
  }
  if (neverFits > 0) {
    found.push({
      subject: plural(neverFits, "workload"),
      name: false,
      text: "waiting for more than there is: can never start unchanged",
      to: "/workloads?state=NeverFits",
    });
  }
  if (evicted > 0) {
    found.push({
      subject: plural(evicted, "workload"),
      name: false,
      text: "waiting again after an eviction",
      to: "/workloads?state=Evicted",
    });
  }
  if (inactive > 0) {
    found.push({
      subject: plural(inactive, "workload"),
      name: false,
      text: "deactivated: resume or delete them",
      to: "/workloads?state=Inactive",
    });
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
