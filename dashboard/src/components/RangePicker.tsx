import { SegmentedControl } from "@mantine/core";
import type { Range } from "../api/queries";
import { useParameter } from "../hooks/useParameter";

const RANGES: { value: Range; label: string }[] = [
  { value: "hour", label: "Hour" },
  { value: "day", label: "Day" },
  { value: "week", label: "Week" },
  { value: "month", label: "Month" },
];

/** Return the range of the charts, which the address holds. */
export function useRange(): [Range, (range: string) => void] {
  const [range, setRange] = useParameter("range", "hour");
  return [RANGES.find((each) => each.value === range)?.value ?? "hour", setRange];
}

export function RangePicker({ value, onChange }: { value: Range; onChange: (range: string) => void }) {
  return (
    <SegmentedControl
      size="xs"
      value={value}
      onChange={onChange}
      data={RANGES}
      aria-label="Time range"
      transitionDuration={0}
    />
  );
}
