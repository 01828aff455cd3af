import { useHistory } from "../../api/queries";
import type { Series } from "../../api/types";
import { LineChart } from "../../components/LineChart";
import { Answered } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { RangePicker, useRange } from "../../components/RangePicker";
import { TooShort } from "../../components/TooShort";
import { formatNumber, formatShare } from "../../format/quantity";
import { linesOf, namedLines, timesOf } from "../../format/series";
import { formatDuration } from "../../format/time";

/** Utilisation, waits and counts over time. */
export function OverviewCharts() {
  const [range, setRange] = useRange();
  const history = useHistory("overview", range);
  return (
    <Panel title={`The last ${range}`} aside={<RangePicker value={range} onChange={setRange} />}>
      <Answered query={history} what="the history">
        {(series) => (series.samples.length < 2 ? <TooShort /> : <Charts series={series} range={range} />)}
      </Answered>
    </Panel>
  );
}

function Charts({ series, range }: { series: Series; range: string }) {
  const times = timesOf(series);
  return (
    <div className="stack">
      <div>
        <h3>Quota in use</h3>
        <LineChart
          label={`Share of quota in use over the last ${range}`}
          times={times}
          lines={linesOf(series, " used share")}
          format={formatShare}
          top={1}
        />
      </div>
      <div className="columns">
        <div>
          <h3>Wait until admission</h3>
          <LineChart
            label={`Waits over the last ${range}`}
            times={times}
            lines={namedLines(series, [
              ["wait p50", "median"],
              ["wait p90", "90 %"],
            ])}
            format={formatDuration}
            height={130}
            top={10}
          />
        </div>
        <div>
          <h3>Workloads</h3>
          <LineChart
            label={`Workloads over the last ${range}`}
            times={times}
            lines={namedLines(series, [
              ["admitted", "admitted"],
              ["pending", "waiting"],
            ])}
            format={formatNumber}
            height={130}
            top={4}
          />
        </div>
      </div>
      <p className="small muted">
        Source: {series.source}; one sample is the mean of {formatDuration(series.intervalS)}.
      </p>
    </div>
  );
}
