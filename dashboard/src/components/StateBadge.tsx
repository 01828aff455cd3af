import { spaced } from "../format/words";
import css from "./StateBadge.module.css";

type Tone = "wait" | "held" | "go" | "run" | "stop" | "odd" | "done";

// Each tone has a shape of its own, so that states differ without colour.
const SHAPES: Record<Tone, string> = {
  wait: "M6 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9z M6 3.5V6l1.8 1.2",
  held: "M3.5 2.5v7 M8.5 2.5v7",
  go: "M2 6.2 5 9 10 3",
  run: "M3.5 2l6 4-6 4z",
  stop: "M2.5 2.5l7 7 M9.5 2.5l-7 7",
  odd: "M6 1.5 11 10.5H1z",
  done: "M2.5 2.5h7v7h-7z",
};

const TONES: Record<string, Tone> = {
  Queued: "wait",
  NotQueued: "wait",
  Waiting: "wait",
  Inqueue: "held",
  Held: "held",
  NeverFits: "odd",
  Admitted: "go",
  Active: "go",
  Open: "go",
  Running: "run",
  RunningInPart: "run",
  Stuck: "stop",
  Evicted: "stop",
  Failed: "stop",
  Preempted: "stop",
  Unknown: "stop",
  Closed: "stop",
  Inactive: "odd",
  Deactivated: "odd",
  Hold: "odd",
  HoldAndDrain: "odd",
  Finished: "done",
  Completed: "done",
  Succeeded: "done",
};

export function toneOf(state: string): Tone {
  return TONES[state] ?? "wait";
}

/** The state of an object: its name, a shape and a colour. */
export function StateBadge({ state }: { state: string }) {
  const tone = toneOf(state);
  return (
    <span className={css.badge} data-tone={tone}>
      <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true" className={css.shape}>
        <path d={SHAPES[tone]} />
      </svg>
      {spaced(state)}
    </span>
  );
}
