import { Link } from "react-router";
import type { Overview, WorkloadState } from "../../api/types";
import { StateBadge } from "../../components/StateBadge";
import css from "./Tiles.module.css";

/** The number of workloads in each state, each a link to these workloads. */
export function Tiles({ counts }: { counts: Overview["counts"] }) {
  const meanings: [WorkloadState, string][] = [
    ["Queued", "waiting for quota or nodes"],
    ["NeverFits", "more than there is"],
    ["Held", "kept out of the queue, or by checks"],
    ["Evicted", "its pods end, or it is tried later"],
    ["Admitted", "pods are starting"],
    ["Stuck", "pods cannot run"],
    ["RunningInPart", "some pods run"],
    ["Running", "all pods run"],
    ["Deactivated", "until it is resumed"],
    ["Finished", "not deleted yet"],
  ];
  const tiles = meanings.map(([state, meaning]) => [state, counts.states[state] ?? 0, meaning] as const);
  return (
    <ul className={css.tiles} aria-label="Workloads by state">
      {tiles.map(([state, count, meaning]) => (
        <li key={state}>
          <Link to={`/workloads?state=${state}`} className={css.tile} data-none={count === 0}>
            <span className={css.count}>{count.toLocaleString("en")}</span>
            <StateBadge state={state} />
            <span className={css.meaning}>{meaning}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
