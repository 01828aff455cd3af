// Nodes and domains as shares of one resource.
import type { DomainUse } from "../api/types";

export interface Shares {
  capacity: number;
  used: number; // by pods with places, as a share of the capacity
  others: number; // by all other pods
  free: number;
}

/** Return the shares of a resource in a node or domain; used and others never exceed the capacity. */
export function sharesOf(domain: DomainUse, resource: string): Shares {
  const capacity = domain.capacity[resource]?.value ?? 0;
  if (capacity <= 0) return { capacity: 0, used: 0, others: 0, free: 0 };
  const used = Math.min(1, (domain.used[resource]?.value ?? 0) / capacity);
  const others = Math.min(1 - used, (domain.others[resource]?.value ?? 0) / capacity);
  return { capacity, used, others, free: Math.max(0, 1 - used - others) };
}

/** Return the nodes below a domain, in order. */
export function nodesOf(domain: DomainUse): DomainUse[] {
  return domain.domains.length === 0 ? (domain.level ? [domain] : []) : domain.domains.flatMap(nodesOf);
}

/** Return the last part of a level's label: "cloud.provider.com/topology-rack" gives "topology-rack". */
export function levelName(level: string): string {
  const name = level.split("/").at(-1) ?? level;
  return name === "hostname" ? "host" : name;
}
