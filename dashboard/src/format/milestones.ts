// The life of a workload as phases, from its milestones.
import type { Milestone } from "../api/types";

export type Phase = "waiting" | "reserved" | "starting" | "running" | "evicted" | "inactive" | "finished";
export interface PhaseSpan {
  phase: Phase;
  from: number; // ms
  to: number; // ms
}

const PHASE_AFTER: Record<string, Phase> = {
  Created: "waiting",
  Queued: "waiting",
  Requeued: "waiting",
  Resumed: "waiting",
  QuotaReserved: "reserved",
  CheckReady: "reserved",
  Admitted: "starting",
  PodsCreated: "starting",
  PodsReady: "running",
  Preempted: "evicted",
  Evicted: "evicted",
  Deactivated: "inactive",
  Finished: "finished",
  // phases of pod groups
  Pending: "waiting",
  Inqueue: "reserved",
  Running: "running",
  Completed: "finished",
  Unknown: "evicted",
};

/** Return the phases in order of time; the last one lasts until ``now`` unless the work has finished. */
export function phasesOf(milestones: readonly Milestone[], now: number): PhaseSpan[] {
  const spans: PhaseSpan[] = [];
  for (const milestone of milestones) {
    const phase = PHASE_AFTER[milestone.step];
    const at = Date.parse(milestone.at);
    const last = spans.at(-1);
    if (last) last.to = Math.max(last.from, at);
    if (phase && phase !== last?.phase) spans.push({ phase, from: at, to: at });
  }
  const last = spans.at(-1);
  if (last && last.phase !== "finished") last.to = Math.max(last.to, now);
  return spans;
}

/** Return the total time in ms of each phase that took any. */
export function totals(spans: readonly PhaseSpan[]): Map<Phase, number> {
  const sums = new Map<Phase, number>();
  for (const { phase, from, to } of spans) if (to > from) sums.set(phase, (sums.get(phase) ?? 0) + to - from);
  return sums;
}
