import type { LiveState } from "../api/live";
import { formatDuration } from "../format/time";
import { useNow } from "../hooks/useNow";
import css from "./LiveIndicator.module.css";

const STALE_AFTER_MS = 5_000;

/** Say whether the page follows the cluster, and since when it does not. */
export function LiveIndicator({ state }: { state: LiveState }) {
  const now = useNow();
  const text = describe(state, now);
  return (
    <span className={css.indicator} data-live={state.kind} role="status" title={explanation(state)}>
      <span className={css.mark} aria-hidden />
      {text}
    </span>
  );
}

function describe(state: LiveState, now: number): string {
  if (state.kind === "live") return "Live";
  if (state.kind === "connecting") return "Connecting";
  const stale = now - state.since;
  return stale > STALE_AFTER_MS ? `Stale for ${formatDuration(stale / 1000)}` : "Reconnecting";
}

function explanation(state: LiveState): string {
  if (state.kind === "live") return "Changes in the cluster appear within two seconds";
  if (state.kind === "connecting") return "Connecting to the stream of changes";
  return `No changes since ${new Date(state.since).toLocaleTimeString("en-GB")}; the page connects again by itself`;
}
