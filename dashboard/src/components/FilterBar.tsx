// The filters of a list, which the address holds: each is one parameter.
import { CloseButton, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { useSearchParams } from "react-router";
import { Icon } from "./Icon";
import css from "./FilterBar.module.css";

export type Filters = Record<string, string>;

const DELAY_MS = 200;

/** Return the filters of the address, and a function that changes some of them. */
export function useFilters(names: readonly string[]): [Filters, (changes: Filters) => void] {
  const [parameters, setParameters] = useSearchParams();
  const filters = Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? ""]));
  const change = (changes: Filters) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes)) {
          if (value) after.set(name, value);
          else after.delete(name);
        }
        return after;
      },
      { replace: true },
    );
  return [filters, change];
}

export function FilterBar({ children, summary }: { children: ReactNode; summary: ReactNode }) {
  return (
    <div className={css.bar} role="search" aria-label="Filters">
      {children}
      <span className={css.summary} role="status">
        {summary}
      </span>
    </div>
  );
}

/** A text filter; the address follows some moments after the last key. */
export function TextFilter({
  label,
  placeholder,
  value,
  onChange,
  wide = false,
}: {
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
  wide?: boolean;
}) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  const send = useDebouncedCallback((next: string) => {
    sent.current = next;
    onChange(next);
  }, DELAY_MS);
  useEffect(() => {
    // The address changed by itself, as the back button does.
    if (value !== sent.current) setText((sent.current = value));
  }, [value]);
  const set = (next: string) => {
    setText(next);
    send(next);
  };
  return (
    <TextInput
      className={wide ? css.wide : css.field}
      size="xs"
      aria-label={label}
      placeholder={placeholder}
      value={text}
      leftSection={wide ? <Icon name="search" size={14} /> : undefined}
      rightSection={
        text ? <CloseButton size="xs" aria-label={`Clear ${label}`} onClick={() => set("")} /> : undefined
      }
      onChange={(event) => set(event.currentTarget.value)}
    />
  );
}

export function ChoiceFilter({
  label,
  all,
  choices,
  value,
  onChange,
}: {
  label: string;
  all: string;
  choices: readonly (string | [value: string, label: string])[];
  value: string;
  onChange: (value: string) => void;
}) {
  const pairs = choices.map((choice): [string, string] =>
    typeof choice === "string" ? [choice, choice] : choice,
  );
  if (value && !pairs.some(([known]) => known === value)) pairs.unshift([value, value]);
  return (
    <select
      className={css.select}
      aria-label={label}
      value={value}
      data-set={value !== ""}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {pairs.map(([choice, text]) => (
        <option key={choice} value={choice}>
          {text}
        </option>
      ))}
    </select>
  );
}
