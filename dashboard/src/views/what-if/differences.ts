// The figures of two simulated runs side by side, and which of them is better.
import type { Waits } from "../../api/types";
import { formatNumber } from "../../format/quantity";
import { formatDuration } from "../../format/time";

export interface Difference {
  kind: "better" | "worse" | "same";
  share: string | null; // of the first figure; null if that is 0
}

interface Compared {
  texts: [string, string];
  change: Difference;
}

/** Compare two durations or, with a format of their own, other figures of which ``want`` is better. */
export function difference(
  before: number,
  after: number,
  want: "less" | "more",
  format: (value: number) => string = formatDuration,
): Compared {
  const texts: [string, string] = [format(before), format(after)];
  if (texts[0] === texts[1]) return { texts, change: { kind: "same", share: null } };
  const better = after < before === (want === "less");
  const share =
    before > 0 ? `${after > before ? "+" : "−"}${Math.abs(Math.round((after / before - 1) * 100))} %` : null;
  return { texts, change: { kind: better ? "better" : "worse", share } };
}

/** Return the rows of the table of all jobs. */
export function figures(
  before: Waits,
  after: Waits,
  fairness: [number | null, number | null],
): ({ name: string } & Compared)[] {
  const count = (value: number) => value.toLocaleString("en");
  const rows = [
    { name: "Mean wait", ...difference(before.meanS, after.meanS, "less") },
    { name: "Median wait", ...difference(before.p50S, after.p50S, "less") },
    { name: "90 % wait at most", ...difference(before.p90S, after.p90S, "less") },
    { name: "99 % wait at most", ...difference(before.p99S, after.p99S, "less") },
    { name: "Slowdown", ...difference(before.slowdown, after.slowdown, "less", formatNumber) },
    { name: "Jobs admitted", ...difference(before.admitted, after.admitted, "more", count) },
    { name: "Preemptions", ...difference(before.preemptions, after.preemptions, "less", count) },
    { name: "Evictions", ...difference(before.evictions, after.evictions, "less", count) },
  ];
  const [old, next] = fairness;
  if (old !== null && next !== null)
    rows.push({ name: "Fairness", ...difference(old, next, "more", (value) => value.toFixed(3)) });
  return rows;
}
