import { Button } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useState } from "react";
import { Link } from "react-router";
import { useGangQueues, usePodGroups } from "../../api/queries";
import type { GangQueueRow, PodGroupRow } from "../../api/types";
import { ChoiceFilter, FilterBar, TextFilter, useFilters } from "../../components/FilterBar";
import { Answered, Empty } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Message } from "../../components/Text";
import { gangAddress } from "../../format/addresses";
import { formatAmount } from "../../format/quantity";
import { plural } from "../../format/words";
import css from "./GangsView.module.css";

const PHASES = ["Pending", "Inqueue", "Running", "Unknown", "Completed"];
const PAGE = 200; // and how many more are shown at a time
const MOST = 500; // of one answer
const FILTERS = ["q", "namespace", "queue", "phase"];

export default function GangsView() {
  const [filters, change] = useFilters(FILTERS);
  const [shown, setShown] = useState(PAGE);
  const groups = usePodGroups({ ...filters, limit: shown });
  const queues = useGangQueues();
  const narrow = useMediaQuery("(max-width: 760px)", false, { getInitialValueInEffect: false });
  const filtered = FILTERS.some((name) => filters[name]);
  const namespaces = [...new Set((groups.data?.items ?? []).map((group) => group.namespace))].sort();
  return (
    <div className="page">
      <h1>Gangs</h1>
      <FilterBar summary={groups.data ? plural(groups.data.total, "pod group") : ""}>
        <TextFilter wide label="Text" placeholder="Name" value={filters.q!} onChange={(q) => change({ q })} />
        <ChoiceFilter
          label="Phase"
          all="All phases"
          choices={PHASES}
          value={filters.phase!}
          onChange={(phase) => change({ phase })}
        />
        <ChoiceFilter
          label="Namespace"
          all="All namespaces"
          choices={namespaces}
          value={filters.namespace!}
          onChange={(namespace) => change({ namespace })}
        />
        <ChoiceFilter
          label="Queue"
          all="All queues"
          choices={(queues.data ?? []).map((queue) => queue.name)}
          value={filters.queue!}
          onChange={(queue) => change({ queue })}
        />
      </FilterBar>
      <Answered query={groups} what="the pod groups">
        {(page) => (
          <Panel flush title="Pod groups">
            {page.items.length === 0 ? (
              <Empty icon="gangs" title={filtered ? "No pod group matches" : "No pod groups"}>
                {filtered ? (
                  <p>
                    <Link to="/gangs">Clear all filters</Link> to see every pod group that you may read.
                  </p>
                ) : (
                  <p>
                    A <code>PodGroup</code> of <code>scheduling.volcano.sh</code> or{" "}
                    <code>scheduling.k8s.io</code> appears here when it is created.
                  </p>
                )}
              </Empty>
            ) : narrow ? (
              <ul>
                {page.items.map((group) => (
                  <GroupCard key={`${group.namespace}/${group.name}`} group={group} />
                ))}
              </ul>
            ) : (
              <GroupTable groups={page.items} />
            )}
            {page.total > page.items.length && (
              <p className={css.more}>
                {page.items.length} of {page.total.toLocaleString("en")} are shown.{" "}
                {shown < MOST ? (
                  <Button
                    size="compact-xs"
                    variant="default"
                    onClick={() => setShown(Math.min(MOST, shown + PAGE))}
                  >
                    More
                  </Button>
                ) : (
                  "Filter to see others."
                )}
              </p>
            )}
          </Panel>
        )}
      </Answered>
      <Answered query={queues} what="the queues of pod groups">
        {(rows) =>
          rows.length === 0 ? null : (
            <Panel title="Queues of pod groups">
              <ul className={css.queues}>
                {rows.map((queue) => (
                  <QueueCard key={queue.name} queue={queue} />
                ))}
              </ul>
            </Panel>
          )
        }
      </Answered>
    </div>
  );
}

function GroupTable({ groups }: { groups: readonly PodGroupRow[] }) {
  return (
    <table className="table">
      <thead>
        <tr>
          <th scope="col">Pod group</th>
          <th scope="col">Phase</th>
          <th scope="col">Queue</th>
          <th scope="col">Pods</th>
          <th scope="col">Created</th>
          <th scope="col">Why it waits</th>
        </tr>
      </thead>
      <tbody>
        {groups.map((group) => (
          <tr key={`${group.namespace}/${group.name}`}>
            <td>
              <Link to={gangAddress(group.namespace, group.name)}>
                <span className="muted">{group.namespace}/</span>
                {group.name}
              </Link>
            </td>
            <td>
              <PhaseBadge group={group} />
            </td>
            <td>{group.queue}</td>
            <td>
              <Members group={group} />
            </td>
            <td className="small muted">
              <Ago at={group.createdAt} />
            </td>
            <td className={css.reason}>
              <Message text={group.reason} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The phase of a group, or the state that says that it cannot start or run as it is. */
function PhaseBadge({ group }: { group: PodGroupRow }) {
  const cannot = group.state === "NeverFits" || group.state === "Stuck";
  return <StateBadge state={cannot ? group.state : group.phase} />;
}

function GroupCard({ group }: { group: PodGroupRow }) {
  return (
    <li className={css.card}>
      <span className="spread">
        <Link to={gangAddress(group.namespace, group.name)} className={css.name}>
          {group.name}
        </Link>
        <PhaseBadge group={group} />
      </span>
      <span className="small muted">
        {group.namespace} · queue {group.queue} · <Ago at={group.createdAt} />
      </span>
      <Members group={group} />
      {group.reason && (
        <span className="small muted">
          <Message text={group.reason} />
        </span>
      )}
    </li>
  );
}

/** The pods of a gang against minMember, as a bar and as numbers. */
export function Members({ group }: { group: PodGroupRow }) {
  const placed = group.running + group.succeeded;
  const scale = Math.max(group.minMember, placed + group.pending + group.failed, 1);
  const text = [
    `${placed} of ${group.minMember}`,
    group.pending > 0 ? `${group.pending} pending` : "",
    group.failed > 0 ? `${group.failed} failed` : "",
  ]
    .filter(Boolean)
    .join(", ");
  return (
    <span
      className={css.members}
      title={`minMember ${group.minMember}: ${group.running} running, ${group.succeeded} succeeded, ${group.pending} pending, ${group.failed} failed`}
    >
      <span className={css.track} aria-hidden>
        <span className={css.placed} style={{ width: `${(placed / scale) * 100}%` }} />
        <span className={css.pending} style={{ width: `${(group.pending / scale) * 100}%` }} />
        <span className={css.failed} style={{ width: `${(group.failed / scale) * 100}%` }} />
      </span>
      <span className="small number">{text}</span>
    </span>
  );
}

function QueueCard({ queue }: { queue: GangQueueRow }) {
  const resources = Object.keys({ ...queue.allocated, ...queue.deserved, ...queue.capability });
  return (
    <li className={css.queue}>
      <span className="spread">
        <Link to={`/gangs?queue=${encodeURIComponent(queue.name)}`} className={css.name}>
          {queue.name}
        </Link>
        <span className="row small muted">
          weight {queue.weight} <StateBadge state={queue.state} />
        </span>
      </span>
      {resources.map((resource) => {
        const allocated = queue.allocated[resource]?.value ?? 0;
        const deserved = queue.deserved[resource]?.value;
        const capability = queue.capability[resource]?.value;
        const scale = Math.max(allocated, deserved ?? 0, capability ?? 0, Number.EPSILON);
        const text = [
          `allocated ${formatAmount(resource, allocated)}`,
          deserved === undefined ? "" : `deserved ${formatAmount(resource, deserved)}`,
          capability === undefined ? "" : `capability ${formatAmount(resource, capability)}`,
        ]
          .filter(Boolean)
          .join(", ");
        return (
          <div key={resource} className={css.share}>
            <code className="clip" title={resource}>
              {resource}
            </code>
            <span className={css.track} role="img" aria-label={`${resource}: ${text}`}>
              <span className={css.placed} style={{ width: `${(allocated / scale) * 100}%` }} />
              {deserved !== undefined && (
                <span className={css.deserved} style={{ left: `${(deserved / scale) * 100}%` }} />
              )}
            </span>
            <span className="small muted number">{text}</span>
          </div>
        );
      })}
    </li>
  );
}
