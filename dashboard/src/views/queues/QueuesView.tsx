import { Button, SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { useClusterQueues, useLocalQueues } from "../../api/queries";
import type { ClusterQueueSummary, LocalQueueSummary } from "../../api/types";
import { FilterBar, TextFilter, useFilters } from "../../components/FilterBar";
import { Answered, Empty } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { QuotaBar, QuotaLegend, QuotaNumbers } from "../../components/QuotaBar";
import { StateBadge } from "../../components/StateBadge";
import { Message } from "../../components/Text";
import { addressOf, queueAddress } from "../../format/addresses";
import { ofResource, resourcesOf, scarcestResource } from "../../format/quota";
import { plural, spaced } from "../../format/words";
import { useParameter } from "../../hooks/useParameter";
import css from "./QueuesView.module.css";

const SHOWN = 200; // rows of one table, and how many more are shown at a time

export default function QueuesView() {
  const [filters, change] = useFilters(["q"]);
  const clusterQueues = useClusterQueues();
  const localQueues = useLocalQueues();
  const text = filters.q!.toLowerCase();
  return (
    <div className="page">
      <h1>Queues</h1>
      <FilterBar summary={clusterQueues.data ? plural(clusterQueues.data.length, "cluster queue") : ""}>
        <TextFilter
          wide
          label="Text"
          placeholder="Name, cohort or namespace"
          value={filters.q!}
          onChange={(q) => change({ q })}
        />
      </FilterBar>
      <Answered query={clusterQueues} what="the cluster queues">
        {(queues) => (
          <ClusterQueues
            queues={queues.filter((queue) => `${queue.name} ${queue.cohort}`.toLowerCase().includes(text))}
            filtered={text !== ""}
          />
        )}
      </Answered>
      <Answered query={localQueues} what="the local queues">
        {(queues) => (
          <LocalQueues
            queues={queues.filter((queue) =>
              `${queue.namespace}/${queue.name} ${queue.clusterQueue}`.toLowerCase().includes(text),
            )}
          />
        )}
      </Answered>
    </div>
  );
}

function ClusterQueues({ queues, filtered }: { queues: ClusterQueueSummary[]; filtered: boolean }) {
  const [shown, setShown] = useState(SHOWN);
  const resources = resourcesOf(queues);
  const [initial] = useState(() => scarcestResource(queues));
  const [resource, setResource] = useParameter("resource", initial);
  return (
    <Panel
      flush
      title="Cluster queues"
      aside={
        resources.length > 1 && (
          <SegmentedControl
            size="xs"
            value={resource}
            onChange={setResource}
            data={resources}
            aria-label="Resource"
            transitionDuration={0}
          />
        )
      }
    >
      {queues.length === 0 ? (
        <Empty icon="queues" title={filtered ? "No cluster queue matches" : "No cluster queues"}>
          <p>
            {filtered
              ? "Try a shorter part of its name."
              : "Create a ClusterQueue, or ask for the right to list them."}
          </p>
        </Empty>
      ) : (
        <>
          <div className={css.legend}>
            <QuotaLegend />
          </div>
          <ul>
            {queues.slice(0, shown).map((queue) => (
              <ClusterQueueRow key={queue.name} queue={queue} resource={resource} />
            ))}
          </ul>
          <More shown={shown} count={queues.length} show={setShown} />
        </>
      )}
    </Panel>
  );
}

function ClusterQueueRow({ queue, resource }: { queue: ClusterQueueSummary; resource: string }) {
  const reason = queue.reasons[0];
  return (
    <li className={css.queue}>
      <div className="tight">
        <span className="row">
          <Link to={queueAddress(queue.name)} className={css.name}>
            {queue.name}
          </Link>
          {stateOf(queue) !== "Active" && <StateBadge state={stateOf(queue)} />}
        </span>
        <span className="small muted">{queue.cohort ? <>cohort {queue.cohort}</> : "no cohort"}</span>
      </div>
      <div className={css.bars}>
        {ofResource(queue.quota, resource).map((use) => (
          <div key={use.flavor} className={css.bar}>
            <code className="clip muted" title={use.flavor}>
              {use.flavor}
            </code>
            <QuotaBar use={use} />
            <QuotaNumbers use={use} />
          </div>
        ))}
      </div>
      <div className="tight">
        <span className="number prose">
          <Link to={`/workloads?state=Pending&clusterQueue=${encodeURIComponent(queue.name)}`}>
            {queue.pending.toLocaleString("en")} waiting
          </Link>{" "}
          · {queue.admitted.toLocaleString("en")} admitted
        </span>
        {reason && (
          <span className="small muted" title={reason.example}>
            {spaced(reason.code)}: {reason.workloads.toLocaleString("en")}
          </span>
        )}
        {!queue.active && (
          <span className="small">
            <Message text={queue.inactiveReason} />
          </span>
        )}
      </div>
    </li>
  );
}

export function stateOf(queue: Pick<ClusterQueueSummary, "active" | "stopPolicy">): string {
  if (queue.stopPolicy && queue.stopPolicy !== "None") return queue.stopPolicy;
  return queue.active ? "Active" : "Inactive";
}

function LocalQueues({ queues }: { queues: LocalQueueSummary[] }) {
  return (
    <Panel flush title="Local queues">
      {queues.length === 0 ? (
        <Empty icon="queues" title="No local queues">
          <p>A LocalQueue in a namespace lets its jobs use a cluster queue.</p>
        </Empty>
      ) : (
        <LocalQueueTable queues={queues} />
      )}
    </Panel>
  );
}

export function LocalQueueTable({
  queues,
  withClusterQueue = true,
}: {
  queues: readonly LocalQueueSummary[];
  withClusterQueue?: boolean;
}) {
  const [shown, setShown] = useState(SHOWN);
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: Local queues">
      <table className="table as-cards">
        <thead>
          <tr>
            <th scope="col">Local queue</th>
            {withClusterQueue && <th scope="col">Cluster queue</th>}
            <th scope="col" className="end">
              Waiting
            </th>
            <th scope="col" className="end">
              With quota
            </th>
            <th scope="col" className="end">
              Admitted
            </th>
            {withClusterQueue && <th scope="col">State</th>}
          </tr>
        </thead>
        <tbody>
          {queues.slice(0, shown).map((queue) => (
            <tr key={`${queue.namespace}/${queue.name}`}>
              <td>
                <Link to={addressOf({ kind: "LocalQueue", namespace: queue.namespace, name: queue.name })}>
                  <span className="muted">{queue.namespace}/</span>
                  {queue.name}
                </Link>
                {!withClusterQueue && stateOf(queue) !== "Active" && <StateBadge state={stateOf(queue)} />}
              </td>
              {withClusterQueue && (
                <td data-label="Cluster queue">
                  <Link to={queueAddress(queue.clusterQueue)}>{queue.clusterQueue}</Link>
                </td>
              )}
              <td className="end number" data-label="Waiting">
                {queue.pending.toLocaleString("en")}
              </td>
              <td className="end number" data-label="With quota">
                {queue.reserving.toLocaleString("en")}
              </td>
              <td className="end number" data-label="Admitted">
                {queue.admitted.toLocaleString("en")}
              </td>
              {withClusterQueue && (
                <td data-label="State">
                  <StateBadge state={stateOf(queue)} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      <More shown={shown} count={queues.length} show={setShown} />
    </div>
  );
}

function More({ shown, count, show }: { shown: number; count: number; show: (rows: number) => void }) {
  if (shown >= count) return null;
  return (
    <p className={css.more}>
      {shown} of {count} are shown.{" "}
      <Button size="compact-xs" variant="default" onClick={() => show(shown + SHOWN)}>
        More
      </Button>
    </p>
  );
}
