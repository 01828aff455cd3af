// The nodes as cells within the boxes of their domains. A cell is filled from below by what pods with places
// use, then hatched by what other pods use; what is left is free. Arrow keys move between cells.
import { memo, type CSSProperties, type KeyboardEvent } from "react";
import type { DomainUse } from "../../api/types";
import { levelName, sharesOf } from "../../format/domains";
import { formatAmount, formatShare } from "../../format/quantity";
import css from "./HeatMap.module.css";

interface Props {
  root: DomainUse;
  resource: string;
  places: ReadonlyMap<string, number>; // pods of the asked gang, by the path of a domain
  chosen: string;
  onChoose: (node: string) => void;
  onHover: (node: string) => void;
}

export function HeatMap({ root, onHover, ...rest }: Props) {
  const moved = (event: KeyboardEvent<HTMLElement>) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const cells = [...event.currentTarget.querySelectorAll<HTMLElement>("button[data-node]")];
    const next = cells[cells.indexOf(document.activeElement as HTMLElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  const over = (target: EventTarget) =>
    onHover((target as HTMLElement).closest<HTMLElement>("[data-node]")?.dataset.node ?? "");
  const first = firstNode(root);
  return (
    <div
      className={css.map}
      role="group"
      aria-label={`Use of ${rest.resource} by node`}
      onKeyDown={moved}
      onMouseOver={(event) => over(event.target)}
      onFocus={(event) => over(event.target)}
      onMouseLeave={() => onHover("")}
    >
      <Children domain={root} path="" {...rest} first={first} />
    </div>
  );
}

type Inner = Omit<Props, "root" | "onHover"> & { first: string; path: string }; // the names of the domains around, each with a slash

function Children({ domain, ...rest }: Inner & { domain: DomainUse }) {
  const leaves = domain.domains.every((each) => each.domains.length === 0);
  return (
    <div className={leaves ? css.cells : css.domains} data-level={domain.domains[0]?.level}>
      {domain.domains.map((each) =>
        each.domains.length === 0 ? (
          <Cell
            key={each.name}
            node={each}
            resource={rest.resource}
            pods={rest.places.get(rest.path + each.name) ?? 0}
            chosen={each.name === rest.chosen}
            onChoose={rest.onChoose}
            reachable={rest.chosen ? each.name === rest.chosen : each.name === rest.first}
          />
        ) : (
          <Domain key={each.name} domain={each} {...rest} />
        ),
      )}
    </div>
  );
}

function Domain({ domain, ...rest }: Inner & { domain: DomainUse }) {
  const free = domain.free[rest.resource]?.value ?? 0;
  const capacity = domain.capacity[rest.resource]?.value ?? 0;
  const pods = rest.places.get(rest.path + domain.name) ?? 0;
  return (
    <div className={css.domain}>
      <p className={css.label}>
        <span className={css.name} title={`${levelName(domain.level)} ${domain.name}`}>
          {domain.name}
        </span>
        <span className="number muted nowrap">
          {formatAmount(rest.resource, free)} of {formatAmount(rest.resource, capacity)} free
        </span>
        {pods > 0 && <strong className={css.pods}>{pods} pods of the gang</strong>}
      </p>
      <Children domain={domain} {...rest} path={`${rest.path}${domain.name}/`} />
    </div>
  );
}

interface CellProps {
  node: DomainUse;
  resource: string;
  pods: number;
  chosen: boolean;
  reachable: boolean;
  onChoose: (node: string) => void;
}

const Cell = memo(function Cell({ node, resource, pods, chosen, reachable, onChoose }: CellProps) {
  const { capacity, used, others, free } = sharesOf(node, resource);
  const text =
    capacity === 0
      ? `no ${resource}`
      : `${formatAmount(resource, capacity)} ${resource}: ${formatShare(used)} used, ${formatShare(others)} by other pods, ${formatShare(free)} free`;
  return (
    <button
      type="button"
      data-node={node.name}
      data-ready={node.ready}
      data-none={capacity === 0}
      data-gang={pods > 0}
      aria-pressed={chosen}
      aria-label={`${node.name}: ${text}${node.ready ? "" : ", not ready"}${pods > 0 ? `, ${pods} pods of the gang` : ""}`}
      title={`${node.name}\n${text}${node.ready ? "" : "\nnot ready"}`}
      tabIndex={reachable ? 0 : -1}
      className={css.cell}
      style={{ "--cell-used": `${used * 100}%`, "--cell-others": `${others * 100}%` } as CSSProperties}
      onClick={() => onChoose(node.name)}
    >
      {pods > 0 ? (
        <span className={css.count}>{pods}</span>
      ) : (
        !node.ready && (
          <span className={css.count} aria-hidden>
            ×
          </span>
        )
      )}
    </button>
  );
}, sameCell);

// Each answer is a new tree: a cell is drawn again only if what it shows has changed.
function sameCell(before: CellProps, after: CellProps): boolean {
  const [old, next] = [sharesOf(before.node, before.resource), sharesOf(after.node, after.resource)];
  return (
    before.node.name === after.node.name &&
    before.node.ready === after.node.ready &&
    before.resource === after.resource &&
    before.pods === after.pods &&
    before.chosen === after.chosen &&
    before.reachable === after.reachable &&
    old.capacity === next.capacity &&
    old.used === next.used &&
    old.others === next.others
  );
}

function firstNode(domain: DomainUse): string {
  const first = domain.domains[0];
  return first ? firstNode(first) : domain.name;
}

export function HeatMapLegend({ gang }: { gang: boolean }) {
  return (
    <ul className={css.legend} aria-label="Legend">
      <li>
        <span className={css.swatch} data-kind="used" aria-hidden /> used by pods with places
      </li>
      <li>
        <span className={css.swatch} data-kind="others" aria-hidden /> used by other pods
      </li>
      <li>
        <span className={css.swatch} data-kind="free" aria-hidden /> free
      </li>
      <li>
        <span className={css.swatch} data-kind="lost" aria-hidden>
          ×
        </span>{" "}
        not ready
      </li>
      {gang && (
        <li>
          <span className={css.swatch} data-kind="gang" aria-hidden>
            4
          </span>{" "}
          pods of the asked gang
        </li>
      )}
    </ul>
  );
}
