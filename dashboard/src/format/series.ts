// The lines of the overview's and queues' charts, picked from a series by the names of its values.
import type { Series } from "../api/types";
import type { Line } from "../components/LineChart";

const COLORS = ["--used", "--borrowed", "--lent", "--odd", "--short", "--others"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 2]];

export function timesOf(series: Series): number[] {
  return series.samples.map((sample) => Date.parse(sample.at) / 1000);
}

export function valuesOf(series: Series, name: string): (number | null)[] {
  const at = series.names.indexOf(name);
  return series.samples.map((sample) => sample.values[at] ?? null);
}

/** Return one line for each name that ends with ``suffix``, labelled by the rest of the name. */
export function linesOf(series: Series, suffix: string): Line[] {
  return series.names
    .filter((name) => name.endsWith(suffix))
    .map((name, at) => ({
      label: name.slice(0, -suffix.length).trim(),
      values: valuesOf(series, name),
      color: COLORS[at % COLORS.length]!,
      dash: DASHES[at % DASHES.length]!,
    }));
}

/** Return lines with the given names, in colours and dashes of their own. */
export function namedLines(series: Series, names: [string, string][]): Line[] {
  return names
    .filter(([name]) => series.names.includes(name))
    .map(([name, label], at) => ({
      label,
      values: valuesOf(series, name),
      color: COLORS[at % COLORS.length]!,
      dash: DASHES[at % DASHES.length]!,
    }));
}
