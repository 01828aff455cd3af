// A table of thousands of rows of which only the visible ones are in the document. Arrow keys move between
// rows, and the position is restored when the browser comes back to the page.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, type KeyboardEvent, type ReactNode } from "react";
import { useLocation } from "react-router";
import css from "./VirtualTable.module.css";

interface Props {
  label: string;
  count: number;
  rowHeight: number;
  columns: readonly string[];
  template: string; // a class with the grid's columns, for the head and each row
  onVisible: (first: number, last: number) => void;
  row: (index: number) => ReactNode; // its cells; null while they are read
}

const OVERSCAN = 8;

export function VirtualTable({ label, count, rowHeight, columns, template, onVisible, row }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const current = useRef<number | null>(null); // the row that has the focus, or gets it with the next frame
  const { key } = useLocation();
  const place = `scroll ${key}`;
  const rows = useVirtualizer({
    count,
    getScrollElement: () => holder.current,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
    initialOffset: () => Number(sessionStorage.getItem(place) ?? 0),
  });
  const items = rows.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => onVisible(first, last), [first, last, onVisible]);
  useEffect(() => rows.measure(), [rowHeight, rows]);

  const moved = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step === undefined || count === 0) return;
    event.preventDefault();
    const next = Math.min(count - 1, Math.max(0, current.current === null ? first : current.current + step));
    current.current = next;
    rows.scrollToIndex(next);
    requestAnimationFrame(() =>
      holder.current?.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus(),
    );
  };

  return (
    <div
      ref={holder}
      className={css.holder}
      role="table"
      aria-label={label}
      aria-rowcount={count + 1}
      tabIndex={0}
      onKeyDown={moved}
      onFocus={(event) => {
        const row = event.target.closest<HTMLElement>("[data-index]");
        if (row) current.current = Number(row.dataset.index);
      }}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) current.current = null;
      }}
      onScroll={(event) => sessionStorage.setItem(place, String(event.currentTarget.scrollTop))}
    >
      <div role="rowgroup" className={css.head}>
        <div role="row" aria-rowindex={1} className={`${css.headRow} ${template}`}>
          {columns.map((column) => (
            <span key={column} role="columnheader">
              {column}
            </span>
          ))}
        </div>
      </div>
      <div role="rowgroup" className={css.rows} style={{ height: rows.getTotalSize() }}>
        {items.map((item) => (
          <div
            key={item.index}
            role="row"
            aria-rowindex={item.index + 2}
            data-index={item.index}
            className={`${css.row} ${template}`}
            style={{ height: rowHeight, transform: `translateY(${item.start}px)` }}
          >
            {row(item.index) ?? (
              <span role="cell" className="muted">
                …
              </span>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}
