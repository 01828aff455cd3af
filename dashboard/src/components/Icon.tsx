// The icons of the page: 16 × 16 outlines, drawn for it. An icon never stands for a text: it is hidden from
// assistive technology, and its label is beside it or on the button around it.

const PATHS = {
  overview: "M2 2h5v6H2zM9 2h5v3H9zM9 7h5v7H9zM2 10h5v4H2z",
  queues: "M2 3h12M2 6.5h9M2 10h12M2 13.5h6",
  workloads: "M2.5 5 8 2l5.5 3v6L8 14l-5.5-3zM2.5 5 8 8l5.5-3M8 8v6",
  gangs:
    "M5 3.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6M11 3.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6M8 9.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6M6.8 5h2.4M5.8 6.6l1.4 2.6M10.2 6.6 8.8 9.2",
  nodes:
    "M2 2h3.2v3.2H2zM6.4 2h3.2v3.2H6.4zM10.8 2H14v3.2h-3.2zM2 6.4h3.2v3.2H2zM6.4 6.4h3.2v3.2H6.4zM10.8 6.4H14v3.2h-3.2zM2 10.8h3.2V14H2zM6.4 10.8h3.2V14H6.4zM10.8 10.8H14V14h-3.2z",
  whatIf: "M8 14V9M8 9 3 4M8 9l5-5M3 7V4h3M13 7V4h-3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.4 10.4 14 14",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9 13 13M13 3l-1.1 1.1M4.1 11.9 3 13",
  moon: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  auto: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M8 2v12M8 5l3.5-2M8 8.5l5.8-2.5M8 12l5-2.5",
  user: "M8 2.5a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4M2.8 14c.5-3 2.5-4.3 5.2-4.3s4.7 1.3 5.2 4.3",
  copy: "M5.5 5.5h8v8h-8zM2.5 10.5v-8h8",
  check: "M3 8.5 6.5 12 13 4.5",
  problem: "M8 2 14.5 13.5h-13zM8 6.5v3.2M8 11.4v.6",
  empty: "M2.5 9 4.5 3h7l2 6v4.5h-11zM2.5 9h3.2l.8 1.8h3L10.3 9h3.2",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  chevron: "M6 3.5 10.5 8 6 12.5",
  keyboard: "M1.5 4h13v8.5h-13zM4 7h.5M6.8 7h.5M9.6 7h.5M12 7h.3M4.5 10h7",
  stop: "M4 4h8v8H4z",
  resume: "M5 3l8 5-8 5z",
  upload: "M8 11V3M4.8 6 8 2.8 11.2 6M2.5 10.5v3h11v-3",
  link: "M6.5 9.5 9.5 6.5M7 4.5 8.8 2.7a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5l-1.8 1.8a2.8 2.8 0 0 1-4-4L5 7.5",
  clock: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M8 4.8V8l2.3 1.8",
  bolt: "M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
