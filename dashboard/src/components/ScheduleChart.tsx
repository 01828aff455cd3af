// What runs in a queue until when, and what is planned to start in it, as bars over one axis of time.
import { Link } from "react-router";
import type { ScheduledWorkload } from "../api/types";
import { workloadAddress } from "../format/addresses";
import { formatDuration, formatUtc } from "../format/time";
import { useNow } from "../hooks/useNow";
import css from "./ScheduleChart.module.css";

const LEAST_S = 60;
const BARS = { Running: css.running, Planned: css.planned, Reserved: css.reserved };

export function ScheduleChart({ rows }: { rows: ScheduledWorkload[] }) {
  const now = useNow();
  const known = rows.flatMap((row) => [row.starts, row.ends ?? row.starts]).map(Date.parse);
  const begin = Math.min(now, ...known);
  const end = Math.max(now + LEAST_S * 1000, ...known);
  const at = (time: number) => (100 * (Math.min(time, end) - begin)) / (end - begin);
  return (
    <div className={css.chart} role="table" aria-label="Running workloads and planned starts">
      <div className={css.axis} aria-hidden>
        <span>{formatDuration((now - begin) / 1000)} ago</span>
        <span>in {formatDuration((end - now) / 1000)}</span>
      </div>
      {rows.map((row) => {
        const starts = Date.parse(row.starts);
        const ends = row.ends ? Date.parse(row.ends) : end;
        return (
          <div key={`${row.namespace}/${row.name}`} className={css.row} role="row">
            <span className={css.name} role="cell">
              {row.namespace ? (
                <Link to={workloadAddress(row.namespace, row.name)}>{row.name}</Link>
              ) : (
                row.name
              )}
            </span>
            <span className={css.lane} role="cell">
              <span
                className={BARS[row.state]}
                data-open={row.ends ? undefined : true}
                style={{ left: `${at(starts)}%`, width: `${Math.max(0.6, at(ends) - at(starts))}%` }}
                title={describe(row, now)}
              />
              <span className={css.now} style={{ left: `${at(now)}%` }} aria-hidden />
            </span>
            <span className={css.text} role="cell">
              {describe(row, now)}
            </span>
          </div>
        );
      })}
    </div>
  );
}

export function describe(row: ScheduledWorkload, now: number): string {
  const clock = (time: string) => formatUtc(time, now);
  const origin = row.origin ? ` (${row.origin.toLowerCase()})` : "";
  if (row.state === "Reserved") {
    return `reserved ${clock(row.starts)} to ${row.ends ? clock(row.ends) : "…"} UTC (${row.cause.toLowerCase()})`;
  }
  if (row.state === "Planned") {
    const moved = row.was ? `, was ${clock(row.was)}: ${row.cause}` : "";
    return `planned ${clock(row.starts)} UTC${origin}${moved}`;
  }
  return row.ends ? `until ${clock(row.ends)} UTC${origin}` : "without a bound";
}
