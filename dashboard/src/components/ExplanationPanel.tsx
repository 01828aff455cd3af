// Why a workload or gang is in its state: the typed reasons with what is needed and what is free.
import { Link } from "react-router";
import type { Explanation, Reason } from "../api/types";
import { queueAddress, workloadKeyAddress } from "../format/addresses";
import { formatAmount, parseQuantity } from "../format/quantity";
import { formatDuration } from "../format/time";
import { plural, spaced, waitsForItsTurn } from "../format/words";
import { useNow } from "../hooks/useNow";
import { Icon } from "./Icon";
import { Panel } from "./Panel";
import { StateBadge } from "./StateBadge";
import { Message, MessageList } from "./Text";
import css from "./ExplanationPanel.module.css";

export function ExplanationPanel({
  explanation,
  problem,
}: {
  explanation: Explanation | null;
  problem: string;
}) {
  if (!explanation) {
    return (
      <Panel title="Explanation">
        <p className="muted">
          There is no explanation: <Message text={problem || "the controllers serve none"} />
        </p>
      </Panel>
    );
  }
  const waits = (explanation.reasons ?? []).length > 0;
  return (
    <Panel title={waits ? "Why it waits" : "Explanation"} aside={<StateBadge state={explanation.state} />}>
      <div className="stack">
        <p className={css.message}>
          <Message text={explanation.message} />
        </p>
        <Position explanation={explanation} />
        {CANNOT[explanation.state] && (
          <p className={css.never}>
            <Icon name="problem" /> {CANNOT[explanation.state]}
          </p>
        )}
        {(explanation.reasons ?? []).map((reason, at) => (
          <ReasonCard key={`${reason.code} ${at}`} reason={reason} />
        ))}
        {(explanation.enough ?? []).length > 0 && (
          <div className={css.enough}>
            <h3>
              {explanation.enough!.length > 1 ? "Any of these would be enough" : "This would be enough"}
            </h3>
            <MessageList texts={explanation.enough!} />
          </div>
        )}
      </div>
    </Panel>
  );
}

const CANNOT: Partial<Record<Explanation["state"], string>> = {
  NeverFits:
    "It can never start like this: only a change of its spec, of the configuration or of the nodes helps.",
  Stuck: "Not all of its pods can run like this: only a change helps.",
};

function Position({ explanation }: { explanation: Explanation }) {
  const now = useNow();
  const retry = explanation.retryAt ? (Date.parse(explanation.retryAt) - now) / 1000 : 0;
  const first = explanation.firstAhead ?? [];
  const ahead = explanation.ahead ?? null;
  return (
    <>
      {ahead !== null && waitsForItsTurn(explanation.state) && (
        <p>
          {ahead === 0 ? (
            <>
              <strong>Next</strong> in the queue
            </>
          ) : (
            <>
              <strong>{plural(ahead, "workload")}</strong> ahead of it
            </>
          )}
          {explanation.clusterQueue && (
            <>
              {" "}
              in <Link to={queueAddress(explanation.clusterQueue)}>{explanation.clusterQueue}</Link>
            </>
          )}
          {first.length > 0 && (
            <>
              , first{" "}
              {first.map((key, at) => (
                <span key={key}>
                  {at > 0 && ", "}
                  <Link to={workloadKeyAddress(key)}>{key}</Link>
                </span>
              ))}
            </>
          )}
        </p>
      )}
      {explanation.plannedStart && (
        <p>
          Its <Message text={explanation.plannedStart.text ?? ""} />
        </p>
      )}
      {explanation.dispatch && (
        <p>
          Clusters: <Message text={explanation.dispatch.text ?? ""} />
        </p>
      )}
      {explanation.priority && <p>Its {explanation.priority.text}</p>}
      {retry > 0 && (
        <p>
          <Icon name="clock" size={13} /> Tried again in{" "}
          <strong className="number">{formatDuration(retry)}</strong>
        </p>
      )}
    </>
  );
}

function ReasonCard({ reason }: { reason: Reason }) {
  return (
    <section className={css.reason}>
      <h3 className="spread">
        <span>{spaced(reason.code)}</span>
        {reason.podSet && (
          <span className="muted small">
            pod set <code>{reason.podSet}</code>
          </span>
        )}
      </h3>
      <p>
        <Message text={reason.text} />
      </p>
      <Shortage reason={reason} />
      {(reason.heldBy ?? []).length > 0 && (
        <div>
          <p className="small muted">Held by</p>
          <ul className={css.holders}>
            {reason.heldBy!.map((holder, at) => (
              <li key={`${holder.workload}${holder.podGroup} ${at}`}>
                <strong className="number">{holder.amount}</strong>{" "}
                {holder.workload ? (
                  <Link to={workloadKeyAddress(holder.workload)}>{holder.workload}</Link>
                ) : holder.podGroup ? (
                  <strong>{holder.podGroup}</strong>
                ) : (
                  <span className="muted">
                    a {reason.object?.kind === "Queue" ? "pod group" : "workload"} that you may not read
                  </span>
                )}
                {holder.clusterQueue && <span className="muted small"> in {holder.clusterQueue}</span>}
                {holder.evicted && <span className={css.leaving}>being evicted</span>}
              </li>
            ))}
          </ul>
        </div>
      )}
      {reason.enough && (
        <p className="small">
          <strong>Enough:</strong> <Message text={reason.enough} />
        </p>
      )}
    </section>
  );
}

/** A bar from nothing to what is needed: what is free of it, and what it is short by. */
function Shortage({ reason }: { reason: Reason }) {
  const needed = parseQuantity(reason.needed ?? "");
  const free = parseQuantity(reason.free ?? "");
  if (needed === null || free === null || needed <= 0) return null;
  const resource = reason.resource ?? "";
  const short = parseQuantity(reason.shortBy ?? "") ?? Math.max(0, needed - free);
  const most = parseQuantity(reason.atMost ?? "");
  const scale = Math.max(needed, free);
  const amount = (value: number) => formatAmount(resource, value);
  const text = `needs ${amount(needed)}, ${amount(free)} free, short by ${amount(short)}${most === null ? "" : `, at most ${amount(most)}`}`;
  return (
    <div className={css.shortage}>
      <p className="small">
        {resource && <code>{resource}</code>}{" "}
        {reason.flavor && (
          <>
            of flavor <code>{reason.flavor}</code>
          </>
        )}
      </p>
      <div className={css.track} role="img" aria-label={text}>
        <span
          className={css.free}
          style={{ width: `${(Math.max(0, Math.min(free, needed)) / scale) * 100}%` }}
        />
        <span
          className={css.short}
          style={{ width: `${(Math.max(0, needed - Math.max(0, free)) / scale) * 100}%` }}
        />
        {most !== null && most < scale && (
          <span className={css.most} style={{ left: `${Math.min(1, most / scale) * 100}%` }} />
        )}
      </div>
      <ul className={css.numbers}>
        <li>
          needed <strong>{amount(needed)}</strong>
        </li>
        <li>
          <span className={css.swatch} data-kind="free" aria-hidden /> free <strong>{amount(free)}</strong>
        </li>
        <li>
          <span className={css.swatch} data-kind="short" aria-hidden /> short by{" "}
          <strong>{amount(short)}</strong>
        </li>
        {most !== null && (
          <li>
            <span className={css.swatch} data-kind="most" aria-hidden /> at most{" "}
            <strong>{amount(most)}</strong>
          </li>
        )}
      </ul>
    </div>
  );
}
