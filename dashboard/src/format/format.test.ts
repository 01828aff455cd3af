import { describe, expect, test } from "vitest";
import type { ClusterQueueSummary, QuotaUse } from "../api/types";
import { addressOf } from "./addresses";
import { phasesOf, totals } from "./milestones";
import { formatAmount, formatShare, parseQuantity } from "./quantity";
import { extent, resourcesOf, scarcestResource, segments } from "./quota";
import { linesOf, namedLines } from "./series";
import {
  dataAge,
  formatAge,
  formatDuration,
  formatEstimate,
  formatTick,
  rangeAround,
  ticksBetween,
} from "./time";
import { plural, spaced, withNames } from "./words";

const GIB = 2 ** 30;

function quotaUse(
  nominal: number,
  reserved: number,
  more: Partial<Record<"admitted" | "borrowed" | "lent", number>> = {},
  flavor = "a100",
): QuotaUse {
  const amount = (value: number) => ({ quantity: String(value), value });
  return {
    flavor,
    resource: "nvidia.com/gpu",
    nominal: amount(nominal),
    reserved: amount(reserved),
    admitted: amount(more.admitted ?? reserved),
    borrowed: amount(more.borrowed ?? 0),
    lent: amount(more.lent ?? 0),
    borrowingLimit: null,
    lendingLimit: null,
  };
}

describe("quantities", () => {
  test.each([
    ["4", 4],
    ["500m", 0.5],
    ["16Gi", 16 * GIB],
    ["1.5G", 1.5e9],
    ["1e3", 1000],
    ["12E", 12e18],
    ["4 cores", null],
    ["", null],
  ])("%s is %s", (text, value) => expect(parseQuantity(text)).toBe(value));

  test.each([
    ["memory", 64 * GIB, "64 Gi"],
    ["memory", 1.5 * 1024 * GIB, "1.5 Ti"],
    ["hugepages-2Mi", 2 ** 21, "2 Mi"],
    ["cpu", 0.25, "0.25"],
    ["cpu", 1234.5, "1,235"],
    ["nvidia.com/gpu", 8, "8"],
  ])("%s %s is written %s", (resource, value, text) => expect(formatAmount(resource, value)).toBe(text));

  test("a share above nothing is not shown as nothing", () => {
    expect([0, 0.002, 0.5, 1].map(formatShare)).toEqual(["0 %", "<1 %", "50 %", "100 %"]);
  });
});

describe("times", () => {
  test.each([
    [0, "0s"],
    [45, "45s"],
    [200, "3m 20s"],
    [7_500, "2h 5m"],
    [86_400, "1d"],
    [360_000, "4d 4h"],
  ])("%s s is written %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  const at = (text: string) => Date.parse(`2026-11-26T${text}Z`);

  test("the ticks between two times are round", () => {
    const written = (begin: number, hours: number) => {
      const { ticks, step } = ticksBetween(begin, begin + hours * 3_600_000, 6);
      return ticks.map((tick) => formatTick(tick, step));
    };
    expect(written(at("10:03:00"), 2)).toEqual(["10:30", "11:00", "11:30", "12:00"]);
    expect(written(at("18:00:00"), 40)).toEqual(["27 Nov", "12:00", "28 Nov"]);
    expect(written(at("18:00:00"), 100)).toEqual(["27 Nov", "28 Nov", "29 Nov", "30 Nov"]);
  });

  test("what is far ahead or long past does not compress what is near", () => {
    const now = at("10:00:00");
    const hour = 3_600_000;
    expect(rangeAround(now, [now - 300 * hour, now + 8 * hour], [])).toEqual([
      now - 16 * hour,
      now + 8 * hour,
    ]);
    expect(rangeAround(now, [now + 8 * hour], [now + 20 * hour])).toEqual([now, now + 20 * hour]);
    expect(rangeAround(now, [now + hour], [now + 500 * hour])).toEqual([now, now + 12 * hour]);
  });

  test("a clock that is behind shows no negative age", () => {
    expect(formatAge("2026-11-26T10:00:05Z", Date.parse("2026-11-26T10:00:00Z"))).toBe("now");
    expect(formatAge("2026-11-26T09:58:00Z", Date.parse("2026-11-26T10:00:00Z"))).toBe("2m ago");
  });

  test.each([
    [null, null, ""],
    [null, 600, "within 10 min"],
    [600, null, "in 10 min"],
    [10, 20, "in seconds"],
    [600, 5_400, "in 10 min to 2 h"],
    [610, 612, "in 10 min"],
  ])("a start by %s (half) and %s (nine of ten) is %s", (p50, p90, text) => {
    const now = Date.parse("2026-11-26T10:00:00Z");
    const moment = (s: number | null) => (s === null ? null : new Date(now + s * 1000).toISOString());
    expect(formatEstimate(moment(p50), moment(p90), now)).toBe(text);
  });
});

describe("words", () => {
  test("a count of one is singular", () => {
    expect([plural(1, "pod"), plural(2, "pod"), plural(1_200, "cluster queue")]).toEqual([
      "1 pod",
      "2 pods",
      "1,200 cluster queues",
    ]);
  });

  test("names in CamelCase become words", () => {
    expect(["QuotaReserved", "PodsReadyTimeout", "OIDCIssuer"].map(spaced)).toEqual([
      "Quota reserved",
      "Pods ready timeout",
      "Oidc issuer",
    ]);
  });

  test("what a message quotes is a name", () => {
    expect(withNames('flavor "a100": use `kubectl`')).toEqual([
      { text: "flavor ", name: false },
      { text: "a100", name: true },
      { text: ": use ", name: false },
      { text: "kubectl", name: true },
    ]);
  });
});

describe("bars of quota", () => {
  test("use beyond nominal quota is borrowed", () => {
    expect(segments(quotaUse(32, 40, { borrowed: 8 }), 40)).toEqual([
      { kind: "admitted", from: 0, to: 0.8 },
      { kind: "borrowed", from: 0.8, to: 1 },
    ]);
  });

  test("what is lent ends the nominal quota, after what is free", () => {
    expect(segments(quotaUse(16, 8, { admitted: 4, lent: 4 }), 16)).toEqual([
      { kind: "admitted", from: 0, to: 0.25 },
      { kind: "reserved", from: 0.25, to: 0.5 },
      { kind: "free", from: 0.5, to: 0.75 },
      { kind: "lent", from: 0.75, to: 1 },
    ]);
  });

  test("no quota has no segments", () => expect(segments(quotaUse(0, 0), 0)).toEqual([]));

  test("a small quota fills its bar as a large one does", () => {
    const shares = [quotaUse(5, 4), quotaUse(1000, 800)].map((use) => segments(use, extent(use)));
    expect(shares[0]).toEqual(shares[1]);
  });

  test("devices come before cpu and memory", () => {
    const queue = {
      quota: ["memory", "cpu", "pods", "nvidia.com/gpu"].map((resource) => ({ ...quotaUse(1, 1), resource })),
    };
    expect(resourcesOf([queue as unknown as ClusterQueueSummary])).toEqual([
      "nvidia.com/gpu",
      "cpu",
      "memory",
      "pods",
    ]);
  });
});

test("the scarcest resource is shown first; of unused ones the first", () => {
  const queue = (used: number) => ({
    quota: [
      { ...quotaUse(8, 2), resource: "nvidia.com/gpu" },
      { ...quotaUse(10, used), resource: "cpu" },
    ],
  });
  expect(scarcestResource([queue(9) as unknown as ClusterQueueSummary])).toBe("cpu");
  expect(scarcestResource([queue(1) as unknown as ClusterQueueSummary])).toBe("nvidia.com/gpu");
  expect(scarcestResource([])).toBe("");
});

describe("phases of a workload", () => {
  const at = (seconds: number, step: string) => ({
    at: new Date(seconds * 1000).toISOString(),
    step,
    reason: "",
    message: "",
  });

  test("an eviction ends running, and the last phase lasts until now", () => {
    const spans = phasesOf(
      [
        at(0, "Created"),
        at(1, "Queued"),
        at(10, "QuotaReserved"),
        at(12, "Admitted"),
        at(20, "PodsReady"),
        at(50, "Evicted"),
        at(55, "Requeued"),
      ],
      60_000,
    );
    expect(spans.map(({ phase, from, to }) => [phase, from / 1000, to / 1000])).toEqual([
      ["waiting", 0, 10],
      ["reserved", 10, 12],
      ["starting", 12, 20],
      ["running", 20, 50],
      ["evicted", 50, 55],
      ["waiting", 55, 60],
    ]);
    expect(totals(spans).get("waiting")).toBe(15_000);
  });

  test("finished work takes no more time", () => {
    expect(phasesOf([at(0, "Queued"), at(5, "PodsReady"), at(9, "Finished")], 99_000).at(-1)).toEqual({
      phase: "finished",
      from: 9_000,
      to: 9_000,
    });
  });
});

describe("series", () => {
  const series = {
    intervalS: 60,
    names: ["pending", "cpu used share", "nvidia.com/gpu used share"],
    samples: [{ at: "2026-11-26T10:00:00Z", values: [3, 0.5, null] }],
    source: "",
  };

  test("lines of one kind are labelled by the rest of their names, with dashes of their own", () => {
    const lines = linesOf(series, " used share");
    expect(lines.map(({ label, values }) => [label, values])).toEqual([
      ["cpu", [0.5]],
      ["nvidia.com/gpu", [null]],
    ]);
    expect(lines[0]!.dash).not.toEqual(lines[1]!.dash);
  });

  test("a name that the series lacks has no line", () => {
    expect(
      namedLines(series, [
        ["pending", "waiting"],
        ["wait p50", "median"],
      ]).map((line) => line.label),
    ).toEqual(["waiting"]);
  });
});

test("each kind of search hit has an address", () => {
  const hits = [
    ["ClusterQueue", "", "a b"],
    ["LocalQueue", "ns", "main"],
    ["Workload", "ns", "job-1"],
    ["PodGroup", "ns", "mpi"],
    ["Node", "", "host-1"],
  ].map(([kind, namespace, name]) => addressOf({ kind: kind!, namespace: namespace!, name: name! }));
  expect(hits).toEqual([
    "/queues/a%20b",
    "/workloads?namespace=ns&localQueue=main",
    "/workloads/ns/job-1",
    "/gangs/ns/mpi",
    "/nodes?node=host-1",
  ]);
});

describe("the age of an answer", () => {
  const answer = { dataUpdatedAt: 1_000_000, isRefetchError: false };
  const lost = { kind: "reconnecting", since: 1_020_000, attempt: 1 } as const;

  test("it is up to date while the page follows the cluster", () =>
    expect(dataAge({ kind: "live" }, answer, 1_060_000)).toBeNull());
  test("it is as old as the last contact, which would have told a change", () =>
    expect(dataAge(lost, answer, 1_060_000)).toBe(40_000));
  test("it is not said before some seconds have passed", () =>
    expect(dataAge(lost, answer, 1_024_000)).toBeNull());
  test("one that cannot be read again is as old as it is", () =>
    expect(dataAge({ kind: "live" }, { ...answer, isRefetchError: true }, 1_060_000)).toBe(60_000));
});
