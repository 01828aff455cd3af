import { describe, expect, test } from "vitest";
import type { ClusterQueueSummary, DomainUse, Overview, Waits } from "../api/types";
import { levelName, nodesOf, sharesOf } from "../format/domains";
import { describe as described } from "../components/ScheduleChart";
import { attention } from "./overview/attention";
import { difference, figures } from "./what-if/differences";

function queue(name: string, more: Partial<ClusterQueueSummary> = {}): ClusterQueueSummary {
  return {
    name,
    cohort: "",
    active: true,
    inactiveReason: "",
    stopPolicy: "None",
    strategy: "BestEffortFIFO",
    pending: 0,
    reserving: 0,
    admitted: 0,
    quota: [],
    weightedShare: null,
    reasons: [],
    ...more,
  };
}

function overview(clusterQueues: ClusterQueueSummary[], more: Partial<Overview> = {}): Overview {
  return {
    at: "2026-11-26T10:00:00Z",
    counts: { pending: 0, reserving: 0, admitted: 0, states: {} },
    cohorts: [{ name: "", quota: [], clusterQueues, cohorts: [] }],
    reasons: [],
    podGroups: {},
    nodes: null,
    workerClusters: [],
    ...more,
  };
}

describe("what needs attention", () => {
  test.each([
    ["a queue that works", queue("a", { pending: 3, reserving: 2 }), []],
    ["a queue with nothing to do", queue("a"), []],
    [
      "a stopped queue",
      queue("a", { stopPolicy: "Hold", active: false, pending: 2 }),
      ["a: stopped (Hold); 2 workloads waiting"],
    ],
    [
      "an inactive queue",
      queue("a", { active: false, inactiveReason: "no flavor" }),
      ["a: inactive: no flavor"],
    ],
    [
      "a queue in which all waits",
      queue("a", { pending: 1 }),
      ["a: nothing of it has quota, and 1 workload waits"],
    ],
  ])("%s", (_, each, want) => {
    expect(attention(overview([each])).map(({ subject, text }) => `${subject}: ${text}`)).toEqual(want);
  });

  test("a worker cluster that is not connected", () => {
    const east = { name: "east", since: null, message: "refused", workloads: 2, nominated: 0 };
    const workerClusters = [
      { ...east, connected: false },
      { ...east, name: "west", connected: true },
      { ...east, name: "new", connected: null },
    ];
    const found = attention(overview([], { workerClusters }));
    expect(found.map(({ subject, text }) => `${subject}: ${text}`)).toEqual([
      "east: worker cluster not connected",
    ]);
  });

  test("workloads that cannot start or run, evicted and deactivated ones, and lost nodes", () => {
    const states = { Stuck: 3, NeverFits: 4, Evicted: 2, Deactivated: 1 };
    const counts = { ...overview([]).counts, states };
    const found = attention(overview([], { counts, nodes: { nodes: 5, ready: 4, capacity: {}, used: {} } }));
    expect(found.map(({ subject, to }) => [subject, to])).toEqual([
      ["3 workloads", "/workloads?state=Stuck"],
      ["4 workloads", "/workloads?state=NeverFits"],
      ["2 workloads", "/workloads?state=Evicted"],
      ["1 workload", "/workloads?state=Deactivated"],
      ["1 node", "/nodes"],
    ]);
  });
});

describe("nodes", () => {
  const amounts = (value: number) => ({ cpu: { quantity: String(value), value } });
  const node = (name: string, used: number, others: number): DomainUse => ({
    name,
    level: "kubernetes.io/hostname",
    nodes: 1,
    ready: true,
    capacity: amounts(8),
    used: amounts(used),
    others: amounts(others),
    free: amounts(8 - used - others),
    domains: [],
  });

  test("use above the capacity fills the cell and no more", () => {
    expect(sharesOf(node("a", 6, 1), "cpu")).toEqual({ capacity: 8, used: 0.75, others: 0.125, free: 0.125 });
    expect(sharesOf(node("a", 6, 4), "cpu")).toEqual({ capacity: 8, used: 0.75, others: 0.25, free: 0 });
    expect(sharesOf(node("a", 6, 1), "nvidia.com/gpu")).toEqual({ capacity: 0, used: 0, others: 0, free: 0 });
  });

  test("the nodes of a tree, in order, and none of an empty one", () => {
    const root = {
      ...node("", 0, 0),
      level: "",
      domains: [{ ...node("rack", 0, 0), domains: [node("a", 1, 0), node("b", 2, 0)] }],
    };
    expect(nodesOf(root).map((each) => each.name)).toEqual(["a", "b"]);
    expect(nodesOf({ ...root, domains: [] })).toEqual([]);
  });

  test("a level is called by the last part of its label", () => {
    expect(["cloud.provider.com/topology-rack", "kubernetes.io/hostname", "node"].map(levelName)).toEqual([
      "topology-rack",
      "host",
      "node",
    ]);
  });
});

describe("figures of two runs", () => {
  test.each([
    [100, 50, "less", "better", "−50 %"],
    [100, 150, "less", "worse", "+50 %"],
    [100, 150, "more", "better", "+50 %"],
    [0, 5, "less", "worse", null],
    [10.1, 10.2, "less", "same", null],
  ] as const)("from %s s to %s s, where %s is better, is %s", (before, after, want, kind, share) => {
    expect(difference(before, after, want).change).toEqual({ kind, share });
  });

  test("fairness is left out if a run has none", () => {
    const waits: Waits = {
      jobs: 1,
      admitted: 1,
      meanS: 1,
      p50S: 1,
      p90S: 1,
      p99S: 1,
      slowdown: 1,
      preemptions: 0,
      evictions: 0,
      ended: 1,
    };
    expect(figures(waits, waits, [0.9, null]).some((row) => row.name === "Fairness")).toBe(false);
    expect(figures(waits, waits, [0.9, 0.8]).at(-1)).toMatchObject({
      name: "Fairness",
      change: { kind: "worse" },
    });
  });
});

describe("the schedule of a queue", () => {
  const now = Date.parse("2026-11-29T12:00:00Z");
  const row = {
    namespace: "red",
    name: "large",
    state: "Planned" as const,
    starts: "2026-11-29T14:05:00Z",
    ends: "2026-11-29T15:05:00Z",
    origin: "Declared",
    was: null,
    cause: "",
  };

  test("says when a start is planned, and why it has moved", () => {
    expect(described(row, now)).toBe("planned 14:05 UTC (declared)");
    expect(described({ ...row, was: "2026-11-29T13:50:00Z", cause: "NodeLost" }, now)).toBe(
      "planned 14:05 UTC (declared), was 13:50: NodeLost",
    );
  });

  test("says what is reserved, and for what", () => {
    const reserved = { ...row, namespace: "", state: "Reserved" as const, cause: "Maintenance" };
    expect(described(reserved, now)).toBe("reserved 14:05 to 15:05 UTC (maintenance)");
  });

  test("says the day of what is not today", () => {
    const night = { starts: "2026-12-05T22:00:00Z", ends: "2026-12-06T06:00:00Z" };
    const reserved = { ...row, ...night, namespace: "", state: "Reserved" as const, cause: "Workloads" };
    expect(described(reserved, now)).toBe("reserved 2026-12-05 22:00 to 2026-12-06 06:00 UTC (workloads)");
    expect(described({ ...row, ...night }, now)).toBe("planned 2026-12-05 22:00 UTC (declared)");
  });

  test("says until when a workload runs at most", () => {
    expect(described({ ...row, state: "Running" }, now)).toBe("until 15:05 UTC (declared)");
    expect(described({ ...row, state: "Running", ends: null, origin: "" }, now)).toBe("without a bound");
  });
});
