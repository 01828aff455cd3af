import { Link, useParams } from "react-router";
import { useQuery } from "@tanstack/react-query";
import { get, path, pathWith } from "../../api/client";
import { useClusterQueue, useTransitions } from "../../api/queries";
import type { ClusterQueueDetail, WorkloadPage } from "../../api/types";
import { ActionButton } from "../../components/ActionButton";
import { Breadcrumb } from "../../components/Breadcrumb";
import { Answered } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { QuotaBar, QuotaLegend, QuotaNumbers } from "../../components/QuotaBar";
import { ReasonBars } from "../../components/ReasonBars";
import { ScheduleChart } from "../../components/ScheduleChart";
import { StateBadge } from "../../components/StateBadge";
import { Facts, Message } from "../../components/Text";
import { Transitions } from "../../components/Transitions";
import { queueAddress, workloadAddress } from "../../format/addresses";
import { formatEstimate } from "../../format/time";
import { plural, waitsForItsTurn } from "../../format/words";
import { useNow } from "../../hooks/useNow";
import { useTitle } from "../../hooks/useTitle";
import { QueueHistory } from "./QueueHistory";
import { LocalQueueTable, stateOf } from "./QueuesView";
import css from "./QueueView.module.css";

const FIRST_WAITING = 15;

export default function QueueView() {
  const { name = "" } = useParams();
  useTitle(name);
  const queue = useClusterQueue(name);
  return (
    <Answered query={queue} what={`the cluster queue ${name}`}>
      {(detail) => <Detail key={name} detail={detail} />}
    </Answered>
  );
}

function Detail({ detail }: { detail: ClusterQueueDetail }) {
  const { summary } = detail;
  const transitions = useTransitions(summary.name);
  const recorded = transitions.data?.length ? transitions.data : detail.transitions;
  return (
    <div className="page">
      <div className="tight">
        <Breadcrumb to="/queues" label="Queues" />
        <div className="spread">
          <h1 className="row">
            {summary.name} <StateBadge state={stateOf(summary)} />
          </h1>
          {detail.mayStop && <StopOrResume detail={detail} />}
        </div>
        {!summary.active && summary.inactiveReason && (
          <p>
            <Message text={summary.inactiveReason} />
          </p>
        )}
      </div>
      <div className="columns-wide">
        <div className="stack">
          <Panel title="Quota and use" aside={<QuotaLegend />}>
            <div className={css.quota}>
              {summary.quota.map((use) => (
                <div key={`${use.flavor} ${use.resource}`} className={css.use}>
                  <span className={css.pair}>
                    <code>{use.resource}</code> <span className="small muted">{use.flavor}</span>
                  </span>
                  <QuotaBar use={use} />
                  <span>
                    <QuotaNumbers use={use} />
                    <span className="small muted">
                      {use.borrowingLimit && (
                        <>
                          {" "}
                          <code>borrowingLimit</code> {use.borrowingLimit.quantity}
                        </>
                      )}
                      {use.lendingLimit && (
                        <>
                          {" "}
                          <code>lendingLimit</code> {use.lendingLimit.quantity}
                        </>
                      )}
                    </span>
                  </span>
                </div>
              ))}
            </div>
          </Panel>
          <QueueHistory name={summary.name} quota={summary.quota} />
          {detail.schedule.length > 0 && (
            <Panel title="Schedule">
              <ScheduleChart rows={detail.schedule} />
            </Panel>
          )}
          <WaitingList name={summary.name} pending={summary.pending} />
          <Panel flush title="Preemptions and evictions">
            <Transitions transitions={recorded} />
          </Panel>
        </div>
        <div className="stack">
          <Panel title="Why workloads wait">
            {summary.reasons.length > 0 ? (
              <ReasonBars
                reasons={summary.reasons}
                waiting={Math.max(
                  summary.pending,
                  summary.reasons.reduce((sum, each) => sum + each.workloads, 0),
                )}
                clusterQueue={summary.name}
              />
            ) : (
              <p className="muted">
                {summary.pending === 0 ? "Nothing waits in this queue." : "No reasons are known yet."}
              </p>
            )}
          </Panel>
          <Panel title="Sharing">
            <Sharing detail={detail} />
          </Panel>
          <Panel title="Settings">
            <Facts
              facts={[
                ["Strategy", <code key="s">{summary.strategy}</code>],
                ["Cohort", summary.cohort || "none"],
                ...Object.entries(detail.preemption).map(([field, policy]): [string, React.ReactNode] => [
                  field,
                  <code key={field}>{policy}</code>,
                ]),
                [
                  "Admission checks",
                  detail.admissionChecks.length > 0 ? detail.admissionChecks.join(", ") : "none",
                ],
              ]}
            />
          </Panel>
          <Panel flush title="Local queues">
            {detail.localQueues.length > 0 ? (
              <LocalQueueTable queues={detail.localQueues} withClusterQueue={false} />
            ) : (
              <p className={css.none}>No local queue that you may read points here.</p>
            )}
          </Panel>
        </div>
      </div>
    </div>
  );
}

function StopOrResume({ detail }: { detail: ClusterQueueDetail }) {
  const { name, stopPolicy } = detail.summary;
  if (stopPolicy && stopPolicy !== "None") {
    return (
      <ActionButton
        label="Resume"
        icon="resume"
        path={`${path("cluster-queues", name)}/resume`}
        question={
          <>
            Admit workloads of <code>{name}</code> again.
          </>
        }
      />
    );
  }
  return (
    <ActionButton
      label="Stop"
      icon="stop"
      path={`${path("cluster-queues", name)}/stop`}
      question={
        <>
          Set <code>stopPolicy: HoldAndDrain</code>: admit no workloads of <code>{name}</code> and evict the
          admitted ones.
        </>
      }
    />
  );
}

function Sharing({ detail }: { detail: ClusterQueueDetail }) {
  const { borrowsFrom, lendsTo, summary } = detail;
  return (
    <div className="stack">
      <p>
        <strong>Borrows from</strong>{" "}
        <Names names={borrowsFrom} none="no queue: all that it uses is within its nominal quota" />
      </p>
      <p>
        <strong>Lends to</strong> <Names names={lendsTo} none="no queue" />
      </p>
      <p>
        <strong>Fair share</strong>{" "}
        {summary.weightedShare === null ? (
          <span className="muted">fair sharing is off</span>
        ) : (
          <>
            <span className="number">{Math.round(summary.weightedShare).toLocaleString("en")}</span>{" "}
            <span className="muted">
              ‰ of the cohort is borrowed by it, divided by its weight; 0: it borrows nothing
            </span>
          </>
        )}
      </p>
    </div>
  );
}

function Names({ names, none }: { names: readonly string[]; none: string }) {
  if (names.length === 0) return <span className="muted">{none}</span>;
  return names.map((name, at) => (
    <span key={name}>
      {at > 0 && ", "}
      <Link to={queueAddress(name)}>{name}</Link>
    </span>
  ));
}

function WaitingList({ name, pending }: { name: string; pending: number }) {
  const now = useNow(60_000);
  const query = { clusterQueue: name, sort: "position", limit: FIRST_WAITING };
  const waiting = useQuery({
    queryKey: ["workloads", "first of", name],
    queryFn: ({ signal }) => get<WorkloadPage>(pathWith("workloads", query), signal),
  });
  return (
    <Panel
      flush
      title={`Waiting list: ${plural(pending, "workload")}`}
      aside={
        pending > 0 && (
          <Link to={`/workloads?clusterQueue=${encodeURIComponent(name)}&sort=position`} className="small">
            All, in order
          </Link>
        )
      }
    >
      <Answered query={waiting} what="the waiting list">
        {(page) => {
          const rows = page.items.filter((row) => row.position !== null || row.state === "NeverFits");
          return rows.length === 0 ? (
            <p className={css.none}>
              {pending === 0
                ? "Nothing waits."
                : "None of the waiting workloads is in a namespace that you may read."}
            </p>
          ) : (
            <ol className={css.waiting}>
              {rows.map((row) => (
                <li key={row.uid} className={css.item}>
                  <span className={`${css.position} number`}>
                    {row.position === null ? "" : row.position + 1}
                  </span>
                  <span className="tight grow">
                    <span className="spread">
                      <Link to={workloadAddress(row.namespace, row.name)}>
                        <span className="muted">{row.namespace}/</span>
                        {row.jobName || row.name}
                      </Link>
                      <span className={css.estimate}>
                        {!waitsForItsTurn(row.state) && <StateBadge state={row.state} />}
                        {formatEstimate(row.startsP50, row.startsP90, now) &&
                          `starts ${formatEstimate(row.startsP50, row.startsP90, now)}`}
                      </span>
                    </span>
                    <span className="small muted">
                      <Message text={row.reason} />
                    </span>
                  </span>
                </li>
              ))}
            </ol>
          );
        }}
      </Answered>
    </Panel>
  );
}
