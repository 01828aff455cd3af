// A line chart on a canvas. Lines differ by dashes as well as by colour; the values under the pointer, or the
// latest ones, are in the legend below as text.
import { useMantineColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatClock } from "../format/time";
import { useNow } from "../hooks/useNow";
import css from "./LineChart.module.css";

export interface Line {
  label: string;
  values: (number | null)[];
  color: string; // a custom property of the theme
  dash?: number[];
  steps?: boolean;
  fill?: boolean;
}

interface Props {
  label: string;
  times: number[]; // seconds
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  top?: number; // the least upper end of the scale
}

export function LineChart({ label, times, lines, format, height = 170, top = 0 }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ times, lines, format });
  const [at, setAt] = useState<number | null>(null);
  const { colorScheme } = useMantineColorScheme();
  const now = useNow(60_000);
  // The chart is made again only if its lines change, not for each sample.
  const shape = JSON.stringify([lines.map((line) => ({ ...line, values: [] })), colorScheme]);

  useEffect(() => {
    latest.current = { times, lines, format };
    plot.current?.setData([times, ...lines.map((line) => line.values)]);
  }, [times, lines, format]);

  useEffect(() => {
    const element = holder.current;
    if (!element) return;
    const make = () => {
      const { times: x, lines: shown } = latest.current;
      plot.current?.destroy();
      const chosen = options(element, shown, height, top, (value) => latest.current.format(value), setAt);
      plot.current = new uPlot(chosen, [x, ...shown.map((line) => line.values)], element);
    };
    make();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    const scheme = window.matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", make);
    return () => {
      scheme.removeEventListener("change", make);
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height, top]);

  const index = at ?? times.length - 1;
  return (
    <figure className={css.chart}>
      <div ref={holder} role="img" aria-label={label} className={css.canvas} style={{ height }} />
      <figcaption className={css.legend}>
        <span className={css.time}>
          {times[index] === undefined ? "" : formatClock(new Date(times[index] * 1000).toISOString(), now)}
        </span>
        {lines.map((line) => (
          <span key={line.label} className={css.line}>
            <svg width="20" height="8" aria-hidden="true">
              <line
                x1="0"
                x2="20"
                y1="4"
                y2="4"
                stroke={`var(${line.color})`}
                strokeWidth="2.5"
                strokeDasharray={line.dash?.map((each) => each / 1.5).join(" ")}
              />
            </svg>
            {line.label} <strong className="number">{valueText(line.values[index], format)}</strong>
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

function valueText(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

function options(
  element: HTMLElement,
  lines: Line[],
  height: number,
  top: number,
  format: (value: number) => string,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth || 300,
    height,
    legend: { show: false },
    padding: [8, 6, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: false, y: false }, y: false },
    hooks: { setCursor: [(self) => onPoint(self.cursor.idx ?? null)] },
    scales: { y: { range: (_, __, most) => [0, Math.max(top, most * 1.08, Number.EPSILON)] } },
    axes: [
      { ...axis, size: 30, gap: 4, space: 70, values: TIME_FORMATS },
      { ...axis, size: 54, space: 34, values: (_, splits) => splits.map((value) => format(value)) },
    ],
    series: [
      {},
      ...lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: color(line.color),
        width: 2,
        dash: line.dash ?? [],
        points: { show: false },
        spanGaps: false,
        ...(line.fill ? { fill: `${color(line.color)}22` } : {}),
        ...(line.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
      })),
    ],
  };
}

const MINUTE = 60;
const TIME_FORMATS: uPlot.Axis.Values = [
  [24 * 60 * MINUTE, "{D} {MMM}", null, null, null, null, null, null, 0],
  [60 * MINUTE, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 0],
  [MINUTE, "{HH}:{mm}", null, null, null, null, null, null, 0],
  [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0],
] as unknown as uPlot.Axis.Values;
