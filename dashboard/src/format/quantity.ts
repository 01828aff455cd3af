// Kubernetes quantities, as numbers and as short text.

const SUFFIXES: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};
const BINARY: [string, number][] = [
  ["Ei", 2 ** 60],
  ["Pi", 2 ** 50],
  ["Ti", 2 ** 40],
  ["Gi", 2 ** 30],
  ["Mi", 2 ** 20],
  ["Ki", 2 ** 10],
];

/** Return the number of whole units (cores, bytes, devices), or null if the text is no quantity. */
export function parseQuantity(text: string): number | null {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([a-zA-Z]{0,2})$/.exec(text.trim());
  const factor = SUFFIXES[match?.[2] ?? "?"];
  return match && factor !== undefined ? Number(match[1]) * factor : null;
}

/** Return whether amounts of the resource are bytes. */
export function isBytes(resource: string): boolean {
  return resource.startsWith("hugepages-") || /(^|[./])(memory|storage|ephemeral-storage)$/.test(resource);
}

/** Return a number with at most three significant digits after the point, and separated thousands. */
export function formatNumber(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** Return an amount of a resource: bytes with a binary suffix, all else as a plain number. */
export function formatAmount(resource: string, value: number): string {
  if (isBytes(resource)) {
    const unit = BINARY.find(([, size]) => Math.abs(value) >= size);
    if (unit) return `${formatNumber(value / unit[1])} ${unit[0]}`;
  }
  return formatNumber(value);
}

export function formatShare(share: number): string {
  const percent = share * 100;
  return `${percent > 0 && percent < 1 ? "<1" : Math.round(percent)} %`;
}
