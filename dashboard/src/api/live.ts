// The event stream: it says what changed, and the queries of the page are read again.
import type { QueryClient } from "@tanstack/react-query";
import { keysOfTopic } from "./topics";
import type { ChangeNotice } from "./types";

export type LiveState =
  { kind: "connecting" } | { kind: "live" } | { kind: "reconnecting"; since: number; attempt: number };

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const BUSY_MS = 250; // before an answer that is being read is asked for again
const SILENCE_MS = 45_000; // three heartbeats

/** Return the delay before an attempt to reconnect; ``random`` in [0, 1) spreads the clients of one server. */
export function reconnectDelay(attempt: number, random: number): number {
  return Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt) * (0.75 + random / 2);
}

/** Connects to the stream until ``stop`` is called, and reports its state. */
export class LiveConnection {
  private source: EventSource | null = null;
  private timer: number | undefined;
  private watchdog: number | undefined;
  private pending = new Set<string>();
  private flushing: number | undefined;
  private attempt = 0;
  private lastContact = Date.now();
  private heartbeats = false; // whether the server sends any as events

  constructor(
    private readonly queries: QueryClient,
    private readonly onState: (state: LiveState) => void,
    private readonly onSessionEnd: () => void,
  ) {}

  start(): void {
    this.onState({ kind: "connecting" });
    window.addEventListener("online", this.connectNow);
    this.connect();
  }

  stop(): void {
    window.removeEventListener("online", this.connectNow);
    window.clearTimeout(this.timer);
    window.clearTimeout(this.flushing);
    window.clearTimeout(this.watchdog);
    this.source?.close();
  }

  private connectNow = (): void => {
    if (this.source?.readyState === EventSource.OPEN) return;
    window.clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    this.source?.close();
    const source = new EventSource("/api/v1/events");
    this.source = source;
    source.onopen = () => {
      const again = this.attempt > 0;
      this.attempt = 0;
      this.contact();
      this.onState({ kind: "live" });
      if (again) this.changed(["*"]);
    };
    source.addEventListener("change", (event: MessageEvent<string>) => {
      this.contact();
      this.changed((JSON.parse(event.data) as ChangeNotice).topics);
    });
    source.addEventListener("heartbeat", () => {
      this.heartbeats = true;
      this.contact();
    });
    source.onerror = () => this.lost(source);
  }

  private contact(): void {
    this.lastContact = Date.now();
    window.clearTimeout(this.watchdog);
    const source = this.source;
    if (this.heartbeats && source) this.watchdog = window.setTimeout(() => this.lost(source), SILENCE_MS);
  }

  private lost(source: EventSource): void {
    if (source !== this.source) return;
    source.close();
    window.clearTimeout(this.watchdog);
    this.onState({ kind: "reconnecting", since: this.lastContact, attempt: this.attempt });
    this.timer = window.setTimeout(
      () => void this.reconnect(),
      reconnectDelay(this.attempt++, Math.random()),
    );
  }

  // An EventSource does not tell the status of an answer: ask whether the session has ended.
  private async reconnect(): Promise<void> {
    const answer = await fetch("/api/v1/session", { credentials: "same-origin" }).catch(() => null);
    if (answer?.status === 401) this.onSessionEnd();
    else this.connect();
  }

  private changed(topics: readonly string[]): void {
    for (const topic of topics) this.pending.add(topic);
    if (this.flushing === undefined) this.flush();
  }

  // An answer that is on its way may be older than the change: it is asked for again after it has come.
  private flush = (): void => {
    this.flushing = undefined;
    const topics = [...this.pending];
    this.pending.clear();
    for (const topic of topics) {
      for (const queryKey of keysOfTopic(topic)) {
        if (this.queries.isFetching({ queryKey }) > 0) this.pending.add(topic);
        else void this.queries.invalidateQueries({ queryKey });
      }
    }
    if (this.pending.size > 0) this.flushing = window.setTimeout(this.flush, BUSY_MS);
  };
}
