import type { Milestone } from "../api/types";
import { formatDuration } from "../format/time";
import { spaced } from "../format/words";
import { toneOf } from "./StateBadge";
import { Clock, Message } from "./Text";
import css from "./Milestones.module.css";

/** The steps of a life in order, each with the time since the step before it. */
export function Milestones({ milestones }: { milestones: readonly Milestone[] }) {
  return (
    <ol className={css.steps}>
      {milestones.map((step, at) => {
        const before = milestones[at - 1];
        const gap = before ? (Date.parse(step.at) - Date.parse(before.at)) / 1000 : 0;
        return (
          <li
            key={`${step.at} ${step.step} ${step.reason}`}
            className={css.step}
            data-tone={toneOf(step.step)}
          >
            <span className={css.time}>
              <Clock at={step.at} />
              {gap >= 1 && <span className={css.gap}>+{formatDuration(gap)}</span>}
            </span>
            <span className={css.mark} aria-hidden />
            <span className="tight">
              <strong>{spaced(step.step)}</strong>
              {(step.reason || step.message) && (
                <span className="small muted">
                  {step.reason && <code>{step.reason}</code>}
                  {step.reason && step.message && ": "}
                  <Message text={step.message} />
                </span>
              )}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
