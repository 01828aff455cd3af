import type { Change, Comparison, Utilisation, Waits } from "../../api/types";
import { Panel } from "../../components/Panel";
import { formatNumber, formatShare } from "../../format/quantity";
import { plural } from "../../format/words";
import { difference, figures, type Difference } from "./differences";
import css from "./ComparisonTables.module.css";

/** What a change makes better and worse, for all jobs, by queue and by flavor. */
export function ComparisonTables({ comparison }: { comparison: Comparison }) {
  const { before, after, jobs } = comparison;
  const queues = Object.entries(comparison.byQueue);
  return (
    <>
      <Panel title="All jobs">
        <div className="stack">
          {jobs.sooner !== null && jobs.later !== null && (
            <p className={css.headline}>
              <span>
                <strong className="number">{jobs.sooner.toLocaleString("en")}</strong>{" "}
                {jobs.sooner === 1 ? "job starts" : "jobs start"} sooner
              </span>
              <span>
                <strong className="number">{jobs.later.toLocaleString("en")}</strong> later
              </span>
              <span className="muted">of {plural(jobs.after.jobs, "job")}</span>
            </p>
          )}
          <FigureTable before={before.jobs} after={after.jobs} fairness={[before.fairness, after.fairness]} />
        </div>
      </Panel>
      {queues.length > 0 && (
        <Panel flush title="By local queue">
          <QueueTable queues={queues} />
        </Panel>
      )}
      {after.utilisation.length > 0 && (
        <Panel flush title="Mean use of quota">
          <UseTable before={before.utilisation} after={after.utilisation} />
        </Panel>
      )}
    </>
  );
}

function FigureTable({
  before,
  after,
  fairness,
}: {
  before: Waits;
  after: Waits;
  fairness: [number | null, number | null];
}) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: All jobs">
      <table className="table">
        <Head first="Figure" />
        <tbody>
          {figures(before, after, fairness).map(({ name, texts, change }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="end number nowrap">{texts[0]}</td>
              <td className="end number nowrap">{texts[1]}</td>
              <td className="end">
                <Changed change={change} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function QueueTable({ queues }: { queues: [string, Change][] }) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: By local queue">
      <table className="table">
        <Head first="Local queue: mean wait" more={["Sooner", "Later"]} />
        <tbody>
          {queues.map(([name, change]) => {
            const mean = difference(change.before.meanS, change.after.meanS, "less");
            return (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td className="end number nowrap">{mean.texts[0]}</td>
                <td className="end number nowrap">{mean.texts[1]}</td>
                <td className="end">
                  <Changed change={mean.change} />
                </td>
                <td className="end number">{change.sooner ?? "–"}</td>
                <td className="end number">{change.later ?? "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function UseTable({ before, after }: { before: readonly Utilisation[]; after: readonly Utilisation[] }) {
  const key = (use: Utilisation) => `${use.clusterQueue} ${use.flavor} ${use.resource}`;
  const old = new Map(before.map((use) => [key(use), use]));
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table: Mean use of quota">
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Quota</th>
            <th scope="col" className="end">
              Before
            </th>
            <th scope="col" className="end">
              After
            </th>
          </tr>
        </thead>
        <tbody>
          {after.map((use) => (
            <tr key={key(use)}>
              <th scope="row">
                {use.clusterQueue} <span className="muted">{use.flavor}</span> <code>{use.resource}</code>
              </th>
              <td className="end number nowrap">{textOf(old.get(key(use)))}</td>
              <td className="end number nowrap">{textOf(use)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function textOf(use: Utilisation | undefined): string {
  if (!use) return "–";
  const mean = Number(use.mean);
  const amount = Number.isFinite(mean) ? formatNumber(mean) : use.mean;
  return `${amount} of ${use.nominal}${use.share === null ? "" : ` (${formatShare(use.share)})`}`;
}

function Head({ first, more = [] }: { first: string; more?: string[] }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {["Before", "After", "Change", ...more].map((name) => (
          <th key={name} scope="col" className="end">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Changed({ change }: { change: Difference }) {
  if (change.kind === "same") return <span className="muted">same</span>;
  return (
    <span className={css.change} data-kind={change.kind}>
      {change.kind === "better" ? "▲ better" : "▼ worse"}
      {change.share !== null && <span className="number"> {change.share}</span>}
    </span>
  );
}
