import { useMediaQuery } from "@mantine/hooks";
import { Link } from "react-router";
import { useClusterQueues, useLocalQueues, useSession } from "../../api/queries";
import type { WorkloadRow, WorkloadState } from "../../api/types";
import { DataAge } from "../../components/DataAge";
import { ChoiceFilter, FilterBar, TextFilter, useFilters } from "../../components/FilterBar";
import { Empty, ErrorState, Loading } from "../../components/PageState";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Message } from "../../components/Text";
import { VirtualTable } from "../../components/VirtualTable";
import { workloadAddress } from "../../format/addresses";
import { formatEstimate } from "../../format/time";
import { plural, waitsForItsTurn } from "../../format/words";
import { useNow } from "../../hooks/useNow";
import { usePages } from "./usePages";
import css from "./WorkloadsView.module.css";

const STATES: WorkloadState[] = [
  "Queued",
  "NeverFits",
  "Held",
  "Evicted",
  "Admitted",
  "Stuck",
  "RunningInPart",
  "Running",
  "Deactivated",
  "Finished",
];
const SORTS: [string, string][] = [
  ["position", "Order of the queue"],
  ["created", "Oldest first"],
  ["-priority", "Highest priority first"],
  ["since", "Longest in its state first"],
  ["name", "By name"],
];
const FILTERS = ["q", "namespace", "clusterQueue", "localQueue", "state", "label", "code", "sort"];

export default function WorkloadsView() {
  const [filters, change] = useFilters(FILTERS);
  const { first, rowAt, onVisible } = usePages(filters);
  const narrow = useMediaQuery("(max-width: 760px)", false, { getInitialValueInEffect: false });
  const session = useSession().data;
  const localQueues = useLocalQueues().data ?? [];
  const clusterQueues = useClusterQueues().data ?? [];
  const namespaces = [
    ...new Set([...localQueues.map((queue) => queue.namespace), ...(session?.namespaces ?? [])]),
  ].sort();
  const queueNames = [
    ...new Set(
      localQueues
        .filter((queue) => !filters.namespace || queue.namespace === filters.namespace)
        .map((queue) => queue.name),
    ),
  ].sort();
  const filtered = FILTERS.some((name) => name !== "sort" && filters[name]);
  const total = first.data?.total ?? 0;
  return (
    <div className="page page-fill">
      <h1>Workloads</h1>
      <FilterBar summary={first.data ? plural(total, "workload") : ""}>
        <TextFilter
          wide
          label="Text"
          placeholder="Name, job or label"
          value={filters.q!}
          onChange={(q) => change({ q })}
        />
        <ChoiceFilter
          label="State"
          all="All states"
          choices={STATES}
          value={filters.state!}
          onChange={(state) => change({ state })}
        />
        <ChoiceFilter
          label="Namespace"
          all="All namespaces"
          choices={namespaces}
          value={filters.namespace!}
          onChange={(namespace) => change({ namespace })}
        />
        <ChoiceFilter
          label="Cluster queue"
          all="All cluster queues"
          choices={clusterQueues.map((queue) => queue.name)}
          value={filters.clusterQueue!}
          onChange={(clusterQueue) => change({ clusterQueue })}
        />
        <ChoiceFilter
          label="Local queue"
          all="All local queues"
          choices={queueNames}
          value={filters.localQueue!}
          onChange={(localQueue) => change({ localQueue })}
        />
        <TextFilter
          label="Label"
          placeholder="Label: key=value"
          value={filters.label!}
          onChange={(label) => change({ label })}
        />
        <ChoiceFilter
          label="Order"
          all="Newest first"
          choices={SORTS}
          value={filters.sort!}
          onChange={(sort) => change({ sort })}
        />
      </FilterBar>
      {first.data && <DataAge query={first} />}
      {first.isPending && <Loading what="the workloads" />}
      {first.isError && !first.data && (
        <ErrorState error={first.error} what="the workloads" retry={() => void first.refetch()} />
      )}
      {first.data && total === 0 && (
        <Empty icon="workloads" title={filtered ? "No workload matches" : "No workloads yet"}>
          {filtered ? (
            <p>
              <Link to="/workloads">Clear all filters</Link> to see every workload that you may read.
            </p>
          ) : (
            <p>
              A workload appears here as soon as a job with the label <code>kueue.x-k8s.io/queue-name</code>{" "}
              is created.
            </p>
          )}
        </Empty>
      )}
      {total > 0 && (
        <VirtualTable
          key={JSON.stringify(filters)}
          label="Workloads"
          count={total}
          rowHeight={narrow ? 108 : 56}
          columns={["Workload", "State", "Queue", "Pods", "Priority", "Why, and when it starts"]}
          template={css.columns!}
          onVisible={onVisible}
          row={(index) => {
            const row = rowAt(index);
            return row ? <Cells row={row} /> : null;
          }}
        />
      )}
    </div>
  );
}

function Cells({ row }: { row: WorkloadRow }) {
  const estimate = formatEstimate(row.startsP50, row.startsP90, useNow(60_000));
  const position = waitsForItsTurn(row.state) ? row.position : null;
  return (
    <>
      <span role="cell" className={css.name}>
        <Link data-row to={workloadAddress(row.namespace, row.name)} className="clip">
          {row.jobName || row.name}
        </Link>
        <span className="small muted clip">
          {row.namespace}
          <span className={css.narrow}> / {row.localQueue}</span>
          {row.jobKind && (
            <>
              {" "}
              · <code>{row.jobKind}</code>
            </>
          )}
        </span>
      </span>
      <span role="cell" className={css.state}>
        <StateBadge state={row.state} />
        <span className="small muted">
          <Ago at={row.since} />
        </span>
      </span>
      <span role="cell" className={css.queue}>
        <span className="clip">{row.localQueue || "–"}</span>
        {row.clusterQueue && <span className="small muted clip">{row.clusterQueue}</span>}
      </span>
      <span role="cell" className={`${css.pods} number`}>
        {row.admittedPods !== null && row.admittedPods !== row.pods
          ? `${row.admittedPods} of ${row.pods}`
          : row.pods}
        <span className={css.narrow}> {row.pods === 1 ? "pod" : "pods"}</span>
      </span>
      <span role="cell" className={`${css.priority} number`}>
        {row.priority}
      </span>
      <span role="cell" className={css.why}>
        {(position !== null || estimate) && (
          <span className={css.when}>
            {position !== null && (
              <span className={css.position}>
                {position === 0 ? "next in queue" : `${position.toLocaleString("en")} ahead`}
              </span>
            )}
            {estimate && <span className={css.estimate}>starts {estimate}</span>}
          </span>
        )}
        <span className={css.reason} title={row.reason}>
          <Message text={row.reason} />
        </span>
      </span>
    </>
  );
}
