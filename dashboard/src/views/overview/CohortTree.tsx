// The tree of cohorts and cluster queues. Each bar is a share of its own quota, so that none is too short.
import { useState, type CSSProperties } from "react";
import { Link } from "react-router";
import type { ClusterQueueSummary, CohortNode, QuotaUse } from "../../api/types";
import { QuotaBar, QuotaNumbers } from "../../components/QuotaBar";
import { StateBadge } from "../../components/StateBadge";
import { queueAddress } from "../../format/addresses";
import { ofResource } from "../../format/quota";
import css from "./CohortTree.module.css";

const SHOWN_QUEUES = 12; // of one cohort, until all are asked for

export function CohortTree({ cohorts, resource }: { cohorts: readonly CohortNode[]; resource: string }) {
  return (
    <ul className={css.tree}>
      {cohorts.map((cohort) => (
        <Cohort key={cohort.name} cohort={cohort} resource={resource} depth={0} />
      ))}
    </ul>
  );
}

function Cohort({ cohort, resource, depth }: { cohort: CohortNode; resource: string; depth: number }) {
  const [all, setAll] = useState(false);
  const queues = byUrgency(cohort.clusterQueues);
  const shown = all ? queues : queues.slice(0, SHOWN_QUEUES);
  const children = (
    <ul className={css.children} data-root={cohort.name === ""}>
      {cohort.cohorts.map((each) => (
        <Cohort key={each.name} cohort={each} resource={resource} depth={depth + 1} />
      ))}
      {shown.map((queue) => (
        <Queue
          key={queue.name}
          queue={queue}
          resource={resource}
          depth={cohort.name === "" ? 0 : depth + 1}
        />
      ))}
      {queues.length > shown.length && (
        <li>
          <button type="button" className={css.more} onClick={() => setAll(true)}>
            Show {queues.length - shown.length} more cluster queues
          </button>
        </li>
      )}
    </ul>
  );
  if (cohort.name === "") return <li>{children}</li>;
  return (
    <li>
      <div className={css.row} data-cohort style={indent(depth)}>
        <div className={css.name}>
          <span className={css.kind}>cohort</span> <strong>{cohort.name}</strong>
        </div>
        <Bars quota={ofResource(cohort.quota, resource)} />
      </div>
      {children}
    </li>
  );
}

function Queue({ queue, resource, depth }: { queue: ClusterQueueSummary; resource: string; depth: number }) {
  return (
    <li className={css.row} style={indent(depth)}>
      <div className={css.name}>
        <Link to={queueAddress(queue.name)}>{queue.name}</Link>
        {!queue.active && <StateBadge state="Inactive" />}
        <span className={css.counts}>
          <Link
            to={`/workloads?state=Pending&clusterQueue=${encodeURIComponent(queue.name)}`}
            data-some={queue.pending > 0}
          >
            {queue.pending.toLocaleString("en")} waiting
          </Link>
          {" · "}
          {queue.admitted.toLocaleString("en")} admitted
        </span>
      </div>
      <Bars quota={ofResource(queue.quota, resource)} />
    </li>
  );
}

function Bars({ quota }: { quota: readonly QuotaUse[] }) {
  if (quota.length === 0) return <div className={css.none}>no quota of this resource</div>;
  return (
    <div className={css.bars}>
      {quota.map((use) => (
        <div key={use.flavor} className={css.bar}>
          <code className={css.flavor} title={use.flavor}>
            {use.flavor}
          </code>
          <QuotaBar use={use} />
          <QuotaNumbers use={use} />
        </div>
      ))}
    </div>
  );
}

/** The names of deeper rows are narrower, so that all bars begin on one line. */
function indent(depth: number): CSSProperties {
  return { "--depth": depth } as CSSProperties;
}

/** Sort queues: those where most waits first, then those that use most, then by name. */
function byUrgency(queues: readonly ClusterQueueSummary[]): ClusterQueueSummary[] {
  return [...queues].sort(
    (one, other) =>
      other.pending - one.pending || other.admitted - one.admitted || one.name.localeCompare(other.name),
  );
}
