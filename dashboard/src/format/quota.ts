// What a bar of quota shows, computed from one QuotaUse or from the parts of a node.
import type { ClusterQueueSummary, CohortNode, QuotaUse } from "../api/types";

export type SegmentKind = "admitted" | "reserved" | "lent" | "borrowed" | "free";
export interface Segment {
  kind: SegmentKind;
  from: number; // as shares of the length of the bar
  to: number;
}

/** Return the largest amount that a bar of this quota shows: its nominal quota and what it borrows. */
export function extent(use: QuotaUse): number {
  return Math.max(use.nominal.value + use.borrowed.value, use.reserved.value);
}

/**
 * Return the segments of a bar with the length ``scale``: within nominal quota what is admitted, what is only
 * reserved, what is free and, last, what is lent to other queues; beyond it what is borrowed.
 */
export function segments(use: QuotaUse, scale: number): Segment[] {
  if (scale <= 0) return [];
  const nominal = use.nominal.value;
  const borrowed = use.borrowed.value;
  const own = Math.min(nominal, Math.max(0, use.reserved.value - borrowed));
  const admitted = Math.min(own, use.admitted.value);
  const lent = Math.min(use.lent.value, nominal - own);
  const cuts: [SegmentKind, number][] = [
    ["admitted", admitted],
    ["reserved", own - admitted],
    ["free", nominal - own - lent],
    ["lent", lent],
    ["borrowed", borrowed],
  ];
  let at = 0;
  return cuts.flatMap(([kind, amount]) => {
    const from = at;
    at += amount / scale;
    return amount > 0 ? [{ kind, from, to: Math.min(1, at) }] : [];
  });
}

/** Return the quota of one resource, by flavor in the order of the spec. */
export function ofResource(quota: readonly QuotaUse[], resource: string): QuotaUse[] {
  return quota.filter((use) => use.resource === resource);
}

/** Return all cluster queues of a tree of cohorts, in the order of the tree. */
export function clusterQueuesOf(cohorts: readonly CohortNode[]): ClusterQueueSummary[] {
  return cohorts.flatMap((cohort) => [...cohort.clusterQueues, ...clusterQueuesOf(cohort.cohorts)]);
}

/** Return the resources with quota, devices first: of these there are usually too few. */
export function resourcesOf(queues: readonly ClusterQueueSummary[]): string[] {
  const names = [...new Set(queues.flatMap((queue) => queue.quota.map((use) => use.resource)))];
  const rank = (name: string) =>
    name.includes("/") ? 0 : name === "cpu" ? 1 : name === "memory" ? 2 : name === "pods" ? 4 : 3;
  return names.sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
}

/** Return the resource of which the largest part of the nominal quota is reserved; of equal ones the first. */
export function scarcestResource(queues: readonly ClusterQueueSummary[]): string {
  const share = (resource: string) => {
    const uses = queues.flatMap((queue) => ofResource(queue.quota, resource));
    const sum = (amount: (use: QuotaUse) => number) => uses.reduce((total, use) => total + amount(use), 0);
    return (
      sum((use) => use.reserved.value) /
      Math.max(
        sum((use) => use.nominal.value),
        Number.EPSILON,
      )
    );
  };
  return resourcesOf(queues).reduce(
    (best, each) => (best === "" || share(each) > share(best) ? each : best),
    "",
  );
}
