import { Link, useParams } from "react-router";
import { path } from "../../api/client";
import { useWorkload } from "../../api/queries";
import type { PodSetRow, WorkloadDetail } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Breadcrumb } from "../../components/Breadcrumb";
import { Commands } from "../../components/Commands";
import { ExplanationPanel } from "../../components/ExplanationPanel";
import { LifeBar } from "../../components/LifeBar";
import { ManifestsPanel } from "../../components/ManifestsPanel";
import { Milestones } from "../../components/Milestones";
import { Answered } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { EventsPanel, PodsPanel } from "../../components/PodsAndEvents";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Facts } from "../../components/Text";
import { addressOf, queueAddress } from "../../format/addresses";
import { formatEstimate } from "../../format/time";
import { waitsForItsTurn } from "../../format/words";
import { useNow } from "../../hooks/useNow";
import { useTitle } from "../../hooks/useTitle";
import css from "./WorkloadView.module.css";

export default function WorkloadView() {
  const { namespace = "", name = "" } = useParams();
  useTitle(name);
  const workload = useWorkload(namespace, name);
  return (
    <Answered query={workload} what={`the workload ${namespace}/${name}`}>
      {(detail) => <Detail key={detail.row.uid} detail={detail} />}
    </Answered>
  );
}

function Detail({ detail }: { detail: WorkloadDetail }) {
  const { row } = detail;
  const estimate = formatEstimate(row.startsP50, row.startsP90, useNow(60_000));
  return (
    <div className="page">
      <div className="tight">
        <Breadcrumb to="/workloads" label="Workloads" />
        <div className="spread">
          <h1 className="row">
            {row.jobName || row.name} <StateBadge state={row.state} />
          </h1>
          {detail.mayStop && row.state !== "Finished" && <StopOrResume detail={detail} />}
        </div>
        <p className="muted">
          {row.jobKind && (
            <>
              <code>{row.jobKind}</code> in{" "}
            </>
          )}
          namespace {row.namespace}
          {row.jobName && row.jobName !== row.name && (
            <>
              , workload <code>{row.name}</code>
            </>
          )}
        </p>
      </div>
      <Panel title="Life">
        <div className="stack">
          <LifeBar milestones={detail.milestones} />
          <Facts
            facts={[
              [
                "Local queue",
                row.localQueue ? (
                  <Link
                    key="l"
                    to={addressOf({ kind: "LocalQueue", namespace: row.namespace, name: row.localQueue })}
                  >
                    {row.localQueue}
                  </Link>
                ) : (
                  "none"
                ),
              ],
              [
                "Cluster queue",
                row.clusterQueue ? (
                  <Link key="c" to={queueAddress(row.clusterQueue)}>
                    {row.clusterQueue}
                  </Link>
                ) : (
                  "none"
                ),
              ],
              ["Priority", row.priority],
              [
                "Pods",
                row.admittedPods !== null && row.admittedPods !== row.pods
                  ? `${row.admittedPods} of ${row.pods} admitted`
                  : row.pods,
              ],
              [
                `${row.state === "Queued" ? "Waiting" : "In this state"} since`,
                <Ago key="s" at={row.since} />,
              ],
              ...(estimate ? [["Estimated start", estimate] as [string, string]] : []),
            ]}
          />
        </div>
      </Panel>
      <div className="columns-wide">
        <div className="stack">
          <ExplanationPanel explanation={detail.explanation} problem={detail.explanationProblem} />
          <Panel flush title="Pod sets">
            <PodSets podSets={detail.podSets} />
          </Panel>
          <PodsPanel
            namespace={row.namespace}
            pods={detail.pods}
            whenNone={
              waitsForItsTurn(row.state)
                ? "Pods are created when the workload is admitted."
                : "No pods exist, or you may not list them."
            }
          />
        </div>
        <div className="stack">
          <ManifestsPanel namespace={row.namespace} name={row.name} />
          <Panel title="Timeline">
            <Milestones milestones={detail.milestones} />
          </Panel>
          <Panel title="On the command line">
            <Commands commands={detail.commands} />
          </Panel>
          <EventsPanel events={detail.events} />
          {Object.keys(detail.labels).length > 0 && (
            <Panel title="Labels">
              <ul className={css.labels}>
                {Object.entries(detail.labels).map(([key, value]) => (
                  <li key={key}>
                    <Link
                      to={`/workloads?label=${encodeURIComponent(`${key}=${value}`)}`}
                      title="All workloads with this label"
                    >
                      <code>
                        {key}={value}
                      </code>
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

function StopOrResume({ detail }: { detail: WorkloadDetail }) {
  const { namespace, name, state } = detail.row;
  const operations = path("workloads", namespace, name);
  return state === "Deactivated" ? (
    <ActionButton
      label="Resume"
      icon="resume"
      path={`${operations}/resume`}
      question={
        <>
          Queue <code>{name}</code> again.
        </>
      }
    />
  ) : (
    <ActionButton
      label="Stop"
      icon="stop"
      path={`${operations}/stop`}
      question={
        <>
          Evict <code>{name}</code> if it has quota, and keep it out of the queue until it is resumed.
        </>
      }
    />
  );
}

function PodSets({ podSets }: { podSets: readonly PodSetRow[] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: Pod sets">
      <table className="table as-cards">
        <thead>
          <tr>
            <th scope="col">Pod set</th>
            <th scope="col">Pods</th>
            <th scope="col">Each pod requests</th>
            <th scope="col">Flavor</th>
            <th scope="col">Placed in</th>
          </tr>
        </thead>
        <tbody>
          {podSets.map((podSet) => (
            <tr key={podSet.name}>
              <td>
                <code>{podSet.name}</code>
              </td>
              <td className="number nowrap" data-label="Pods">
                {podSet.admittedPods !== null && podSet.admittedPods !== podSet.pods
                  ? `${podSet.admittedPods} of ${podSet.pods}`
                  : podSet.pods}
                {podSet.minPods !== null && <span className="small muted"> at least {podSet.minPods}</span>}
              </td>
              <td data-label="Each pod requests">
                {Object.entries(podSet.requests).map(([resource, quantity]) => (
                  <div key={resource} className="nowrap">
                    <code>{resource}</code> {quantity}
                  </div>
                ))}
              </td>
              <td data-label="Flavor">
                {[...new Set(Object.values(podSet.flavors))].map((flavor) => (
                  <div key={flavor}>
                    <code>{flavor}</code>
                  </div>
                ))}
              </td>
              <td data-label="Placed in">
                {podSet.domains.map((domain) => (
                  <div key={domain} className="small">
                    {domain}
                  </div>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
