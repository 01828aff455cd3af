import { useHistory } from "../../api/queries";
import type { QuotaUse, Series } from "../../api/types";
import { LineChart } from "../../components/LineChart";
import { Answered } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { RangePicker, useRange } from "../../components/RangePicker";
import { TooShort } from "../../components/TooShort";
import { formatAmount, formatNumber } from "../../format/quantity";
import { namedLines, timesOf, valuesOf } from "../../format/series";
import { useParameter } from "../../hooks/useParameter";
import { path } from "../../api/client";
import css from "./QueueHistory.module.css";

/** The use of one flavor and resource against its quota, and the workloads, over time. */
export function QueueHistory({ name, quota }: { name: string; quota: readonly QuotaUse[] }) {
  const [range, setRange] = useRange();
  const pairs = quota.map((use) => `${use.flavor}/${use.resource}`);
  const [pair, setPair] = useParameter("quota", pairs[0] ?? "");
  const history = useHistory(path("cluster-queues", name), range);
  return (
    <Panel
      title={`The last ${range}`}
      aside={
        <>
          {pairs.length > 1 && (
            <select
              className={css.select}
              aria-label="Flavor and resource"
              value={pair}
              onChange={(event) => setPair(event.currentTarget.value)}
            >
              {pairs.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          )}
          <RangePicker value={range} onChange={setRange} />
        </>
      }
    >
      <Answered query={history} what="the history">
        {(series) =>
          series.samples.length < 2 ? <TooShort /> : <Charts series={series} pair={pair} range={range} />
        }
      </Answered>
    </Panel>
  );
}

function Charts({ series, pair, range }: { series: Series; pair: string; range: string }) {
  const times = timesOf(series);
  const resource = pair.slice(pair.indexOf("/") + 1);
  const amount = (value: number) => formatAmount(resource, value);
  return (
    <div className="stack">
      <LineChart
        label={`Use of ${pair} against its quota over the last ${range}`}
        times={times}
        lines={[
          { label: "used", values: valuesOf(series, `${pair} used`), color: "--used", fill: true },
          {
            label: "nominal quota",
            values: valuesOf(series, `${pair} nominal`),
            color: "--short",
            dash: [6, 4],
            steps: true,
          },
        ]}
        format={amount}
      />
      <LineChart
        label={`Workloads over the last ${range}`}
        times={times}
        lines={namedLines(series, [
          ["admitted", "admitted"],
          ["pending", "waiting"],
        ])}
        format={formatNumber}
        height={110}
        top={4}
      />
    </div>
  );
}
