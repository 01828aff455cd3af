// The addresses of objects within the page.
import type { SearchHit } from "../api/types";

const encoded = encodeURIComponent;

export const queueAddress = (name: string): string => `/queues/${encoded(name)}`;
export const workloadAddress = (namespace: string, name: string): string =>
  `/workloads/${encoded(namespace)}/${encoded(name)}`;
export const gangAddress = (namespace: string, name: string): string =>
  `/gangs/${encoded(namespace)}/${encoded(name)}`;

/** Return the address of a workload named as namespace/name. */
export function workloadKeyAddress(key: string): string {
  const [namespace = "", name = ""] = key.split("/");
  return workloadAddress(namespace, name);
}

export function addressOf(hit: Pick<SearchHit, "kind" | "namespace" | "name">): string {
  switch (hit.kind) {
    case "ClusterQueue":
      return queueAddress(hit.name);
    case "LocalQueue":
      return `/workloads?namespace=${encoded(hit.namespace)}&localQueue=${encoded(hit.name)}`;
    case "Workload":
      return workloadAddress(hit.namespace, hit.name);
    case "PodGroup":
      return gangAddress(hit.namespace, hit.name);
    case "Node":
      return `/nodes?node=${encoded(hit.name)}`;
    default:
      return "/";
  }
}
