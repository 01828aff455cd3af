import { Link } from "react-router";
import type { Transition } from "../api/types";
import { workloadAddress, workloadKeyAddress } from "../format/addresses";
import { spaced } from "../format/words";
import { StateBadge } from "./StateBadge";
import { Ago, Message } from "./Text";
import css from "./Transitions.module.css";

/** Evictions and preemptions: the victim, the cause, and the workload that it made way for. */
export function Transitions({ transitions }: { transitions: readonly Transition[] }) {
  if (transitions.length === 0) return <p className={css.none}>None is recorded.</p>;
  return (
    <ul>
      {transitions.map((each) => (
        <li key={`${each.at} ${each.namespace}/${each.name} ${each.step}`} className={css.item}>
          <span className={css.step}>
            <StateBadge state={each.step} />
          </span>
          <span className="tight grow">
            <span>
              {each.name ? (
                <Link to={workloadAddress(each.namespace, each.name)}>
                  <span className="muted">{each.namespace}/</span>
                  {each.name}
                </Link>
              ) : (
                <span className="muted">a workload that you may not read</span>
              )}
              {each.preemptor && (
                <>
                  {" "}
                  for <Link to={workloadKeyAddress(each.preemptor)}>{each.preemptor}</Link>
                </>
              )}
            </span>
            <span className="small muted">
              <strong>{spaced(each.reason)}</strong>
              {each.message && (
                <>
                  : <Message text={each.message} />
                </>
              )}
            </span>
          </span>
          <span className="small muted">
            <Ago at={each.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
