// Which cached answers a topic of the event stream makes outdated. A topic of one object concerns the lists
// that show the object too.

export type Key = readonly string[];

/** Return the prefixes of the query keys that a topic concerns; an unknown topic concerns all. */
export function keysOfTopic(topic: string): Key[] {
  const [kind, ...rest] = topic.split("/");
  const name = rest.join("/");
  switch (kind) {
    case "overview":
      return [["overview"]];
    case "clusterqueues":
      return [["cluster-queues"], ["local-queues"], ...(name ? [["cluster-queue", name]] : [])];
    case "workloads":
      return [["workloads"], ...(name ? [["workload", name]] : [])];
    case "podgroups":
      return [["pod-groups"], ["gang-queues"], ...(name ? [["pod-group", name]] : [])];
    case "nodes":
      return [["nodes"]];
    case "forecast":
      return [["workloads"], ["forecast"]];
    default:
      return [[]];
  }
}
