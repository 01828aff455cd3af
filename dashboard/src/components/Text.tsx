// Small pieces of text: messages with names in code font, times that keep up, facts in pairs.
import type { ReactNode } from "react";
import { formatAge, formatClock } from "../format/time";
import { withNames } from "../format/words";
import { useNow } from "../hooks/useNow";
import css from "./Text.module.css";

/** A message with what it quotes in code font. */
export function Message({ text }: { text: string }) {
  return (
    <>
      {withNames(text).map((part, at) =>
        part.name ? <code key={at}>{part.text}</code> : <span key={at}>{part.text}</span>,
      )}
    </>
  );
}

/** Messages as a list. */
export function MessageList({ texts }: { texts: readonly string[] }) {
  return (
    <ul className="list">
      {texts.map((text) => (
        <li key={text}>
          <Message text={text} />
        </li>
      ))}
    </ul>
  );
}

/** How long ago a time was; the time itself is its title. */
export function Ago({ at }: { at: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={new Date(at).toLocaleString("en-GB")} className="nowrap number">
      {formatAge(at, now)}
    </time>
  );
}

export function Clock({ at }: { at: string }) {
  const now = useNow(60_000);
  return (
    <time dateTime={at} title={new Date(at).toLocaleString("en-GB")} className="nowrap number">
      {formatClock(at, now)}
    </time>
  );
}

export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className={css.facts}>
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
