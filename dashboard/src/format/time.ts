// Durations and points in time, short enough for a table.
import type { LiveState } from "../api/live";

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

/** Return a duration in its two largest units: 45s, 3m 20s, 2h 5m, 4d 3h. */
export function formatDuration(seconds: number): string {
  let rest = Math.max(0, Math.round(seconds));
  const at = UNITS.findIndex(([, size]) => rest >= size);
  if (at < 0) return "0s";
  return UNITS.slice(at, at + 2)
    .map(([unit, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count ? `${count}${unit}` : "";
    })
    .filter(Boolean)
    .join(" ");
}

/** Return how long ago a time was, at ``now`` in ms; a time in the future is "now". */
export function formatAge(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 1 ? "now" : `${formatDuration(seconds)} ago`;
}

/** Return the estimated time from ``now`` in ms until a start: half of the runs start by p50, nine of ten by p90. */
export function formatEstimate(p50: string | null, p90: string | null, now: number): string {
  const until = (at: string | null) => (at === null ? null : roughly((Date.parse(at) - now) / 1000));
  const [half, most] = [until(p50), until(p90)];
  if (half === null) return most === null ? "" : `within ${most}`;
  return most === null || most === half ? `in ${half}` : `in ${half} to ${most}`;
}

/** Return a duration in one unit, as precise as an estimate is. */
function roughly(seconds: number): string {
  if (seconds < 30) return "seconds";
  const unit = UNITS.find(([, size]) => seconds >= size * 1.5) ?? ["s", 1];
  return `${Math.round(seconds / unit[1])} ${({ d: "days", h: "h", m: "min", s: "s" } as Record<string, string>)[unit[0]]}`;
}

/** Return a time of the day, with its date if that is not the day of ``now``. */
export function formatClock(at: string, now: number): string {
  const time = new Date(at);
  const clock = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const sameDay = time.toDateString() === new Date(now).toDateString();
  return sameDay ? clock : `${time.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/** Return a time in UTC to the minute, with its date if that is not the day of ``now``. */
export function formatUtc(at: string, now: number): string {
  const written = new Date(at).toISOString();
  const day = written.slice(0, 10);
  const time = written.slice(11, 16);
  return new Date(now).toISOString().startsWith(day) ? time : `${day} ${time}`;
}

const MINUTE_MS = 60_000;
const STEPS_MS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 10_080, 43_200, 525_600].map(
  (minutes) => minutes * MINUTE_MS,
);

const FAR_MS = 12 * 60 * MINUTE_MS;

/**
 * Return the part of time to show around ``now``: all ``near`` times ahead, of ``far`` ones those within thrice
 * that or half a day, and as much of the past as twice what is ahead.
 */
export function rangeAround(now: number, near: number[], far: number[]): [number, number] {
  const ahead = Math.max(MINUTE_MS, ...near.map((time) => time - now));
  const further = Math.min(Math.max(3 * ahead, FAR_MS), Math.max(0, ...far.map((time) => time - now)));
  const end = now + Math.max(ahead, further);
  return [Math.max(Math.min(now, ...near, ...far), now - 2 * (end - now)), end];
}

/** Return at most ``most`` round times in UTC between two times, in ms, and their distance. */
export function ticksBetween(begin: number, end: number, most: number): { ticks: number[]; step: number } {
  const step = STEPS_MS.find((each) => (end - begin) / each <= most) ?? end - begin;
  const first = Math.ceil(begin / step) * step;
  const count = Math.max(0, Math.floor((end - first) / step) + 1);
  return { ticks: Array.from({ length: Math.min(count, most) }, (_, at) => first + at * step), step };
}

/** Return a tick in UTC: the time of the day, or the day at midnight and if the ticks are days apart. */
export function formatTick(tick: number, step: number): string {
  const time = new Date(tick);
  if (step < 1_440 * MINUTE_MS && tick % (1_440 * MINUTE_MS)) return time.toISOString().slice(11, 16);
  return time.toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
}

const OLD_MS = 5_000;

/**
 * Return the age of an answer in ms; null if it is up to date, or not older than some seconds. An answer that
 * was read again in vain is as old as the last one; one that was not read again is as old as the last contact.
 */
export function dataAge(
  live: LiveState,
  answer: { dataUpdatedAt: number; isRefetchError: boolean },
  now: number,
): number | null {
  if (live.kind === "live" && !answer.isRefetchError) return null;
  const contact = live.kind === "reconnecting" && !answer.isRefetchError ? live.since : 0;
  const age = now - Math.max(answer.dataUpdatedAt, contact);
  return age > OLD_MS ? age : null;
}
