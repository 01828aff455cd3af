// The fragmentation of the cluster for one gang: the largest that fits in a domain of each level, and where a
// gang of the asked size would go now.
import { Button, TextInput } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { useSearchParams } from "react-router";
import type { GangPlacement, NodesView } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Panel } from "../../components/Panel";
import { Message } from "../../components/Text";
import { levelName } from "../../format/domains";
import { parseQuantity } from "../../format/quantity";
import { plural } from "../../format/words";
import css from "./GangPanel.module.css";

/** The pods of a gang, and what each of them requests, by resource; empty texts are left out. */
export type Gang = Record<string, string>;

const PREFIX = "gang.";

/** Return the gang that the address asks about. */
export function useGang(): [Gang, (gang: Gang) => void] {
  const [parameters, setParameters] = useSearchParams();
  const given = [...parameters].filter(([name]) => name.startsWith(PREFIX));
  const gang = Object.fromEntries(given.map(([name, value]) => [name.slice(PREFIX.length), value]));
  const set = (next: Gang) =>
    setParameters(
      (before) => {
        const after = new URLSearchParams([...before].filter(([name]) => !name.startsWith(PREFIX)));
        for (const [name, value] of Object.entries(next)) if (value) after.set(PREFIX + name, value);
        return after;
      },
      { replace: true },
    );
  return [gang, set];
}

/** Return the parameters of the API for a gang; null if it has no pods or requests nothing. */
export function gangQuery(gang: Gang): Record<string, string> | null {
  const { pods, ...requests } = gang;
  return pods && Object.keys(requests).length > 0 ? { pods, ...requests } : null;
}

interface Props {
  view: NodesView;
  gang: Gang;
  onChange: (gang: Gang) => void;
  placement: UseQueryResult<GangPlacement>;
  asked: boolean;
}

export function GangPanel({ view, gang, onChange, placement, asked }: Props) {
  const [draft, setDraft] = useState<Gang>(gang);
  const resources = view.resources.filter(
    (name) => !["pods", "ephemeral-storage"].includes(name) && !name.startsWith("hugepages-"),
  );
  const wrong = Object.entries(draft).find(
    ([name, value]) => value && (name === "pods" ? !/^[1-9]\d*$/.test(value) : parseQuantity(value) === null),
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onChange(draft);
  };
  return (
    <Panel title="Does a gang fit?">
      <form className="stack" onSubmit={submit}>
        <div className={css.fields}>
          {["pods", ...resources].map((name) => (
            <TextInput
              key={name}
              size="xs"
              label={name === "pods" ? "Pods" : <code>{name}</code>}
              placeholder={name === "pods" ? "8" : name === "memory" ? "16Gi" : name === "cpu" ? "4" : "1"}
              value={draft[name] ?? ""}
              error={
                wrong?.[0] === name
                  ? name === "pods"
                    ? "a whole number above 0"
                    : "a quantity, such as 4, 500m or 16Gi"
                  : undefined
              }
              onChange={(event) => setDraft({ ...draft, [name]: event.currentTarget.value.trim() })}
            />
          ))}
        </div>
        <div className="row">
          <Button size="xs" type="submit" disabled={wrong !== undefined || gangQuery(filled(draft)) === null}>
            Find places
          </Button>
          {asked && (
            <Button
              size="xs"
              variant="default"
              onClick={() => {
                setDraft({});
                onChange({});
              }}
            >
              Clear
            </Button>
          )}
          <span className="small muted">requests of one pod</span>
        </div>
      </form>
      {asked && <Answer view={view} placement={placement} />}
    </Panel>
  );
}

function filled(gang: Gang): Gang {
  return Object.fromEntries(Object.entries(gang).filter(([, value]) => value));
}

function Answer({ view, placement }: { view: NodesView; placement: UseQueryResult<GangPlacement> }) {
  const { data, isError, error } = placement;
  const largest = Object.entries(view.largestGangs);
  return (
    <div className={css.answer} role="status">
      {isError && !data && (
        <p>
          <Icon name="problem" size={13} /> {error.message}
        </p>
      )}
      {data && (
        <p className={data.fits ? css.fits : css.refused}>
          <Icon name={data.fits ? "check" : "problem"} />
          <span>
            {data.fits ? (
              `It fits, in ${plural(data.places.length, "place")}.`
            ) : (
              <>
                It does not fit: <Message text={data.reason} />
              </>
            )}
          </span>
        </p>
      )}
      {data?.fits && (
        <ul className={css.places}>
          {data.places.slice(0, 12).map((place) => (
            <li key={place.domain}>
              <code>{place.domain}</code> <strong className="number">{plural(place.pods, "pod")}</strong>
            </li>
          ))}
          {data.places.length > 12 && <li className="muted">and {data.places.length - 12} more places</li>}
        </ul>
      )}
      {largest.length > 0 && (
        <div>
          <h3>Largest gang of such pods</h3>
          <ul className={css.places}>
            {largest.map(([level, pods]) => (
              <li key={level}>
                <span title={level}>in one {levelName(level)}</span>{" "}
                <strong className="number">{plural(pods, "pod")}</strong>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
