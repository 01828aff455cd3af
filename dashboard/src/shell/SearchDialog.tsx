// The search of the page: a field and its hits, moved through with the arrow keys.
import { Modal } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useState, type KeyboardEvent } from "react";
import { useNavigate } from "react-router";
import { useSearch } from "../api/queries";
import { addressOf } from "../format/addresses";
import { Icon } from "../components/Icon";
import css from "./SearchDialog.module.css";

const DELAY_MS = 120;

export function SearchDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      size="lg"
      padding={0}
      yOffset="10vh"
      lockScroll={false}
      transitionProps={{ duration: 0 }}
    >
      <Modal.Overlay />
      <Modal.Content aria-label="Search">
        <SearchForm onClose={onClose} />
      </Modal.Content>
    </Modal.Root>
  );
}

function SearchForm({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [asked] = useDebouncedValue(text, DELAY_MS);
  const [chosen, setChosen] = useState(0);
  const result = useSearch(asked.trim());
  const navigate = useNavigate();
  const hits = asked.trim() ? (result.data?.hits ?? []) : [];

  const open = (at: number) => {
    const hit = hits[at];
    if (!hit) return;
    onClose();
    void navigate(addressOf(hit));
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((at) => Math.min(hits.length - 1, at + 1));
    else if (event.key === "ArrowUp") setChosen((at) => Math.max(0, at - 1));
    else if (event.key === "Enter") open(chosen);
    else return;
    event.preventDefault();
  };

  return (
    <div>
      <div className={css.field}>
        <Icon name="search" size={18} />
        <input
          data-autofocus
          className={css.input}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            setChosen(0);
          }}
          onKeyDown={pressed}
          placeholder="Name, namespace or label, for example team=vision"
          role="combobox"
          aria-label="Search"
          aria-expanded={hits.length > 0}
          aria-controls="search-hits"
          aria-activedescendant={hits.length > 0 ? `hit-${chosen}` : undefined}
        />
      </div>
      <div className={css.hits} id="search-hits" role="listbox" aria-label="Hits">
        {hits.map((hit, at) => (
          <div
            key={`${hit.kind}/${hit.namespace}/${hit.name}`}
            id={`hit-${at}`}
            role="option"
            aria-selected={at === chosen}
            className={css.hit}
            onMouseMove={() => setChosen(at)}
            onClick={() => open(at)}
          >
            <span className={css.kind}>{hit.kind}</span>
            <span className={css.name}>
              {hit.namespace && <span className="muted">{hit.namespace}/</span>}
              {hit.name}
            </span>
            {hit.matched && hit.matched !== "name" && <span className="muted small clip">{hit.matched}</span>}
          </div>
        ))}
      </div>
      <p className={css.note} role="status">
        {note(asked.trim(), hits.length, result.isError, result.isFetching, result.data?.more ?? false)}
      </p>
    </div>
  );
}

function note(asked: string, hits: number, failed: boolean, reading: boolean, more: boolean): string {
  if (!asked) return "Type a part of a name, a namespace, or a label as key=value.";
  if (failed) return "The search failed. Type again to repeat it.";
  if (reading && hits === 0) return "Searching …";
  if (hits === 0) return "Nothing that you may see matches. Try a shorter part of the name.";
  return more ? "There are more: type more of the name." : "Enter opens the chosen one.";
}
