// What runs in a queue until when, and what is planned to start in it, as bars over one axis of time.
import { Link } from "react-router";
import type { ScheduledWorkload } from "../api/types";
import { workloadAddress } from "../format/addresses";
import { formatTick, formatUtc, rangeAround, ticksBetween } from "../format/time";
import { useNow } from "../hooks/useNow";
import css from "./ScheduleChart.module.css";

const MOST_TICKS = 6;
const LEAST_PERCENT = 0.6; // of a bar
const BARS = { Running: css.running, Planned: css.planned, Reserved: css.reserved };

export function ScheduleChart({ rows }: { rows: ScheduledWorkload[] }) {
  const now = useNow();
  const times = (reserved: boolean) =>
    rows
      .filter((row) => (row.state === "Reserved") === reserved)
      .flatMap((row) => [row.starts, row.ends ?? row.starts].map(Date.parse));
  const [begin, end] = rangeAround(now, times(false), times(true));
  const at = (time: number) => (100 * (Math.min(Math.max(time, begin), end) - begin)) / (end - begin);
  const { ticks, step } = ticksBetween(begin, end, MOST_TICKS);
  return (
    <div className={css.chart} role="table" aria-label="Running workloads and planned starts">
      <div className={css.row} aria-hidden>
        <span className={css.text}>UTC</span>
        <span className={css.axis}>
          {ticks.map((tick) => (
            <span
              key={tick}
              className={css.label}
              data-tick
              style={{ left: `${at(tick)}%`, transform: `translateX(-${at(tick)}%)` }}
            >
              {formatTick(tick, step)}
            </span>
          ))}
        </span>
        <span className={css.text}>
          <span className={css.key} /> now, {formatUtc(new Date(now).toISOString(), now)}
        </span>
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
              {ticks.map((tick) => (
                <span key={tick} className={css.tick} style={{ left: `${at(tick)}%` }} aria-hidden />
              ))}
              <span
                className={BARS[row.state]}
                data-open={row.ends ? undefined : true}
                style={{
                  left: `${Math.min(100 - LEAST_PERCENT, at(starts))}%`,
                  width: `${Math.max(LEAST_PERCENT, at(ends) - at(starts))}%`,
                }}
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
