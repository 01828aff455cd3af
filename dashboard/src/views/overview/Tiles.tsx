import { Link } from "react-router";
import type { Overview } from "../../api/types";
import { StateBadge } from "../../components/StateBadge";
import css from "./Tiles.module.css";

/** The number of workloads in each state, each a link to these workloads. */
export function Tiles({ counts }: { counts: Overview["counts"] }) {
  const tiles: [string, number, string][] = [
    ["Pending", counts.pending - counts.evicted - counts.neverFits - counts.held, "waiting for quota"],
    ["NeverFits", counts.neverFits, "more than there is"],
    ["Held", counts.held, "kept out of the queue"],
    ["QuotaReserved", counts.reserving, "waiting for checks"],
    ["Admitted", counts.admitted - counts.running - counts.stuck, "pods are starting"],
    ["Stuck", counts.stuck, "pods cannot run"],
    ["Running", counts.running, "all pods run"],
    ["Evicted", counts.evicted, "waiting again"],
    ["Inactive", counts.inactive, "deactivated"],
    ["Finished", counts.finished, "not deleted yet"],
  ];
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
