// The life of a workload or gang as one bar: how long it waited, started and ran.
import type { Milestone } from "../api/types";
import { phasesOf, totals, type Phase } from "../format/milestones";
import { formatDuration } from "../format/time";
import { useNow } from "../hooks/useNow";
import css from "./LifeBar.module.css";

const LABELS: Record<Phase, string> = {
  waiting: "waiting",
  reserved: "quota reserved",
  starting: "starting",
  running: "running",
  evicted: "evicted",
  inactive: "deactivated",
  finished: "finished",
};

export function LifeBar({ milestones }: { milestones: readonly Milestone[] }) {
  const now = useNow();
  const spans = phasesOf(milestones, now);
  const from = spans[0]?.from ?? 0;
  const length = (spans.at(-1)?.to ?? 0) - from;
  if (length <= 0) return null;
  const sums = [...totals(spans)];
  const text = sums.map(([phase, ms]) => `${LABELS[phase]} ${formatDuration(ms / 1000)}`).join(", ");
  return (
    <div className={css.life}>
      <div className={css.bar} role="img" aria-label={text}>
        {spans.map((span) => (
          <span
            key={span.from}
            data-phase={span.phase}
            className={css.span}
            style={{ width: `${((span.to - span.from) / length) * 100}%` }}
            title={`${LABELS[span.phase]}: ${formatDuration((span.to - span.from) / 1000)}`}
          />
        ))}
      </div>
      <ul className={css.legend}>
        {sums.map(([phase, ms]) => (
          <li key={phase}>
            <span className={css.swatch} data-phase={phase} aria-hidden /> {LABELS[phase]}{" "}
            <strong className="number">{formatDuration(ms / 1000)}</strong>
          </li>
        ))}
      </ul>
    </div>
  );
}
