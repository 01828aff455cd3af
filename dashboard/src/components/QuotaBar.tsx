// Bars of quota: what is used within nominal quota, what is free, lent and borrowed, each with a pattern.
import type { QuotaUse } from "../api/types";
import { extent, segments, type SegmentKind } from "../format/quota";
import { formatAmount } from "../format/quantity";
import css from "./QuotaBar.module.css";

const LABELS: Record<SegmentKind, string> = {
  admitted: "admitted",
  reserved: "reserved, not admitted",
  free: "free",
  lent: "lent",
  borrowed: "borrowed",
};

export function QuotaBar({ use }: { use: QuotaUse }) {
  const scale = extent(use);
  const nominal = scale > 0 ? use.nominal.value / scale : 0;
  return (
    <div className={css.bar} role="img" aria-label={describeUse(use)} title={describeUse(use)}>
      {segments(use, scale).map(({ kind, from, to }) => (
        <span
          key={kind}
          className={css.segment}
          data-kind={kind}
          style={{ left: `min(${from * 100}%, 100% - 3px)`, width: `${(to - from) * 100}%` }}
        />
      ))}
      <span className={css.nominal} style={{ width: `${nominal * 100}%` }} />
    </div>
  );
}

/** Return the numbers of a bar as a sentence. */
export function describeUse(use: QuotaUse): string {
  const amount = (value: number) => formatAmount(use.resource, value);
  const parts = [
    `${use.flavor}, ${use.resource}: ${amount(use.reserved.value)} of ${amount(use.nominal.value)} reserved`,
  ];
  if (use.admitted.value < use.reserved.value) parts.push(`${amount(use.admitted.value)} admitted`);
  if (use.borrowed.value > 0) parts.push(`${amount(use.borrowed.value)} borrowed`);
  if (use.lent.value > 0) parts.push(`${amount(use.lent.value)} lent to others`);
  if (use.borrowingLimit) parts.push(`borrowingLimit ${use.borrowingLimit.quantity}`);
  if (use.lendingLimit) parts.push(`lendingLimit ${use.lendingLimit.quantity}`);
  return parts.join(", ");
}

/** The used and nominal amounts, and what is borrowed or lent, beside a bar. */
export function QuotaNumbers({ use }: { use: QuotaUse }) {
  const amount = (value: number) => formatAmount(use.resource, value);
  return (
    <span className={css.numbers}>
      <span className={css.main}>
        <strong>{amount(use.reserved.value)}</strong> / {amount(use.nominal.value)}
      </span>
      {use.borrowed.value > 0 && <span className={css.borrowed}>+{amount(use.borrowed.value)} borrowed</span>}
      {use.lent.value > 0 && <span className={css.lent}>{amount(use.lent.value)} lent</span>}
    </span>
  );
}

export function QuotaLegend({
  kinds = ["admitted", "reserved", "borrowed", "lent", "free"],
}: {
  kinds?: SegmentKind[];
}) {
  return (
    <ul className={css.legend} aria-label="Legend">
      {kinds.map((kind) => (
        <li key={kind}>
          <span className={css.swatch} data-kind={kind} aria-hidden /> {LABELS[kind]}
        </li>
      ))}
    </ul>
  );
}
