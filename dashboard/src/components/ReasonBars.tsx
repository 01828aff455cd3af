import { Link } from "react-router";
import type { ReasonCount } from "../api/types";
import { spaced } from "../format/words";
import { Message } from "./Text";
import css from "./ReasonBars.module.css";

/** The most frequent reasons why workloads wait, each with its share, an example, and a link to the list. */
export function ReasonBars({
  reasons,
  waiting,
  clusterQueue,
}: {
  reasons: readonly ReasonCount[];
  waiting: number;
  clusterQueue?: string;
}) {
  const queue = clusterQueue ? `&clusterQueue=${encodeURIComponent(clusterQueue)}` : "";
  return (
    <ul className={css.reasons}>
      {reasons.map((reason) => (
        <li key={reason.code} className={css.reason}>
          <div className={css.head}>
            <Link to={`/workloads?code=${encodeURIComponent(reason.code)}${queue}`} className={css.code}>
              {spaced(reason.code)}
            </Link>
            <span className="number">
              <strong>{reason.workloads.toLocaleString("en")}</strong>{" "}
              <span className="muted">of {waiting.toLocaleString("en")}</span>
            </span>
          </div>
          <div className={css.track} aria-hidden>
            <span
              className={css.fill}
              style={{ width: `${waiting > 0 ? Math.min(100, (reason.workloads / waiting) * 100) : 0}%` }}
            />
          </div>
          <p className={css.example}>
            <Message text={reason.example} />
          </p>
        </li>
      ))}
    </ul>
  );
}
