import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { Link } from "react-router";
import { useOverview } from "../../api/queries";
import type { NodeTotals, Overview, Session, WorkerCluster } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Answered, Empty } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { QuotaLegend } from "../../components/QuotaBar";
import { ReasonBars } from "../../components/ReasonBars";
import { StateBadge } from "../../components/StateBadge";
import { formatAmount, formatShare } from "../../format/quantity";
import { clusterQueuesOf, resourcesOf, scarcestResource } from "../../format/quota";
import { useParameter } from "../../hooks/useParameter";
import { attention } from "./attention";
import { CohortTree } from "./CohortTree";
import { OverviewCharts } from "./OverviewCharts";
import { Tiles } from "./Tiles";
import css from "./OverviewView.module.css";

export default function OverviewView({ session }: { session: Session }) {
  const overview = useOverview();
  return (
    <Answered query={overview} what="the overview">
      {(data) => <Content overview={data} session={session} />}
    </Answered>
  );
}

function Content({ overview, session }: { overview: Overview; session: Session }) {
  const queues = clusterQueuesOf(overview.cohorts);
  const resources = resourcesOf(queues);
  const [initial] = useState(() => scarcestResource(queues));
  const [resource, setResource] = useParameter("resource", initial);
  const concerns = attention(overview);
  const { pending, reserving, admitted, states } = overview.counts;
  const waiting = pending + reserving + admitted - (states.Running ?? 0);
  return (
    <div className="page">
      <h1 className="hidden-text">Overview</h1>
      <Tiles counts={overview.counts} />
      <div className="columns-wide">
        <div className="stack">
          <Panel
            title={session.readsClusterQueues ? "Quota by cohort" : "Quota of your queues"}
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
              <Empty icon="queues" title="No queues yet">
                <p>
                  {session.readsClusterQueues
                    ? "Create a ClusterQueue and a LocalQueue that points to it."
                    : "No local queue of your namespaces points to a cluster queue. Ask an administrator for one."}
                </p>
              </Empty>
            ) : (
              <div className="stack">
                <QuotaLegend />
                <CohortTree cohorts={overview.cohorts} resource={resource} />
              </div>
            )}
          </Panel>
          <OverviewCharts />
        </div>
        <div className="stack">
          <Panel title="Why workloads wait">
            {overview.reasons.length === 0 ? (
              <Calm>{waiting === 0 ? "Nothing waits." : "No reasons are known yet."}</Calm>
            ) : (
              <ReasonBars reasons={overview.reasons} waiting={waiting} />
            )}
          </Panel>
          <Panel title="Needs attention">
            {concerns.length === 0 ? (
              <Calm>Nothing is stopped, stuck or lost.</Calm>
            ) : (
              <ul className={`${css.concerns} prose`}>
                {concerns.map((each) => (
                  <li key={`${each.subject} ${each.text}`}>
                    <Icon name="problem" />
                    <span>
                      <Link to={each.to}>{each.name ? <code>{each.subject}</code> : each.subject}</Link>{" "}
                      {each.text}
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </Panel>
          {overview.nodes && <NodesPanel nodes={overview.nodes} />}
          {overview.workerClusters.length > 0 && <WorkerClusters clusters={overview.workerClusters} />}
          {Object.keys(overview.podGroups).length > 0 && (
            <Panel
              title="Gangs"
              aside={
                <Link to="/gangs" className="small">
                  All gangs
                </Link>
              }
            >
              <ul className="row">
                {Object.entries(overview.podGroups).map(([phase, count]) => (
                  <li key={phase}>
                    <Link to={`/gangs?phase=${encodeURIComponent(phase)}`} className={css.phase}>
                      <strong className="number">{count.toLocaleString("en")}</strong>{" "}
                      <StateBadge state={phase} />
                    </Link>
                  </li>
                ))}
              </ul>
            </Panel>
          )}
        </div>
      </div>
    </div>
  );
}

function Calm({ children }: { children: string }) {
  return (
    <p className={css.calm}>
      <Icon name="check" /> {children}
    </p>
  );
}

function WorkerClusters({ clusters }: { clusters: readonly WorkerCluster[] }) {
  return (
    <Panel title="Worker clusters">
      <ul className={css.clusters}>
        {clusters.map((cluster) => (
          <li key={cluster.name}>
            <Icon name={cluster.connected ? "check" : "problem"} />
            <div>
              <strong className="clip" title={cluster.name}>
                {cluster.name}
              </strong>{" "}
              <span className="small nowrap">
                <span className="number">{cluster.workloads.toLocaleString("en")}</span> running there
                {cluster.nominated > 0 && (
                  <>
                    , <span className="number">{cluster.nominated.toLocaleString("en")}</span> waiting for it
                  </>
                )}
              </span>
              {!cluster.connected && <p className="small muted">{cluster.message || "not connected yet"}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function NodesPanel({ nodes }: { nodes: NodeTotals }) {
  return (
    <Panel
      title="Nodes"
      aside={
        <Link to="/nodes" className="small">
          Heat map
        </Link>
      }
    >
      <div className="stack">
        <p>
          <strong className="number">{nodes.ready.toLocaleString("en")}</strong>{" "}
          <span className="muted">of {nodes.nodes.toLocaleString("en")} ready</span>
        </p>
        {Object.entries(nodes.capacity).map(([resource, capacity]) => {
          const used = nodes.used[resource]?.value ?? 0;
          const share = capacity.value > 0 ? used / capacity.value : 0;
          return (
            <div key={resource} className={css.capacity}>
              <code className="clip" title={resource}>
                {resource}
              </code>
              <span className={css.track} role="img" aria-label={`${resource}: ${formatShare(share)} used`}>
                <span className={css.fill} style={{ width: `${Math.min(1, share) * 100}%` }} />
              </span>
              <span className="number small nowrap">
                {formatAmount(resource, used)}{" "}
                <span className="muted">/ {formatAmount(resource, capacity.value)}</span>
              </span>
            </div>
          );
        })}
      </div>
    </Panel>
  );
}
