// The pods of a workload or gang with their nodes, and the events about it.
import { useState } from "react";
import { Link } from "react-router";
import type { EventRow, PodRow } from "../api/types";
import { plural } from "../format/words";
import { Panel } from "./Panel";
import { PodLogButton } from "./PodLog";
import { StateBadge } from "./StateBadge";
import { Ago, Message } from "./Text";
import css from "./PodsAndEvents.module.css";

const SHOWN = 20; // pods or events, until all are asked for

export function PodsPanel({
  namespace,
  pods,
  whenNone,
}: {
  namespace: string;
  pods: readonly PodRow[];
  whenNone: string;
}) {
  const [all, setAll] = useState(false);
  const ready = pods.filter((pod) => pod.ready).length;
  const shown = all ? pods : pods.slice(0, SHOWN);
  const severalSets = new Set(pods.map((pod) => pod.podSet)).size > 1;
  return (
    <Panel
      flush
      title="Pods"
      aside={
        pods.length > 0 && (
          <span className="small muted number">
            {ready} of {pods.length} ready
          </span>
        )
      }
    >
      {pods.length === 0 ? (
        <p className={css.none}>{whenNone}</p>
      ) : (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: Pods">
          <table className="table as-cards">
            <thead>
              <tr>
                <th scope="col">Pod</th>
                <th scope="col">Phase</th>
                <th scope="col">Node</th>
                <th scope="col">Output</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((pod) => (
                <tr key={pod.name}>
                  <td className={css.pod}>
                    {pod.name}
                    {severalSets && <span className="small muted"> {pod.podSet}</span>}
                  </td>
                  <td data-label="Phase">
                    <StateBadge state={pod.phase} />
                    {pod.phase === "Running" && !pod.ready && <span className="small muted"> not ready</span>}
                  </td>
                  <td data-label="Node">
                    {pod.node ? (
                      <Link to={`/nodes?node=${encodeURIComponent(pod.node)}`}>{pod.node}</Link>
                    ) : (
                      <span className="small muted">
                        <Message text={pod.reason || "none yet"} />
                      </span>
                    )}
                  </td>
                  <td data-label="Output">
                    {pod.phase !== "Pending" && <PodLogButton namespace={namespace} pod={pod} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {pods.length > shown.length && <More count={pods.length} what="pod" onClick={() => setAll(true)} />}
    </Panel>
  );
}

export function EventsPanel({ events }: { events: readonly EventRow[] }) {
  const [all, setAll] = useState(false);
  const shown = all ? events : events.slice(0, SHOWN);
  return (
    <Panel flush title="Events">
      {events.length === 0 ? (
        <p className={css.none}>
          No events, or you may not list them. The API server keeps events for an hour.
        </p>
      ) : (
        <ul>
          {shown.map((event) => (
            <li key={`${event.at} ${event.reason} ${event.message}`} className={css.event}>
              <span className="spread">
                <strong data-type={event.type} className={css.reason}>
                  {event.type === "Warning" && "Warning: "}
                  {event.reason}
                  {event.count > 1 && ` × ${event.count}`}
                </strong>
                <span className="small muted">
                  <Ago at={event.at} />
                </span>
              </span>
              <span className="small muted">
                <Message text={event.message} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {events.length > shown.length && (
        <More count={events.length} what="event" onClick={() => setAll(true)} />
      )}
    </Panel>
  );
}

function More({ count, what, onClick }: { count: number; what: string; onClick: () => void }) {
  return (
    <button type="button" className={css.more} onClick={onClick}>
      Show all {plural(count, what)}
    </button>
  );
}
