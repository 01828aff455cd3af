import { useId, type ReactNode } from "react";
import css from "./Panel.module.css";

/** A part of a view, with a heading and perhaps controls beside it. */
export function Panel({
  title,
  aside,
  children,
  flush = false,
}: {
  title: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  const id = useId();
  return (
    <section className={css.panel} aria-labelledby={id}>
      <header className={css.header}>
        <h2 id={id}>{title}</h2>
        {aside && <div className={css.aside}>{aside}</div>}
      </header>
      <div className={flush ? css.flush : css.body}>{children}</div>
    </section>
  );
}
