// Requests to the dashboard's own server, and nothing else.
import type { LoginMethods, Problem, Session } from "./types";

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
    this.name = "ProblemError";
  }
}

/** The caller has no session; ``methods`` are its ways to get one. */
export class LoginNeeded extends Error {
  constructor(readonly methods: LoginMethods) {
    super("not logged in");
    this.name = "LoginNeeded";
  }
}

let csrfToken = "";

export type Query = Record<string, string | number | undefined>;

export function pathWith(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** Return a path of names, each of them encoded. */
export function path(...names: string[]): string {
  return names.map(encodeURIComponent).join("/");
}

async function request<T>(method: string, where: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = csrfToken;
  let response: Response;
  try {
    response = await fetch(`/api/v1/${where}`, {
      method,
      headers,
      credentials: "same-origin",
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ProblemError({
      status: 0,
      reason: "Unreachable",
      message:
        "the dashboard's server does not answer: check that `quorate dashboard` is running and that this machine reaches it",
    });
  }
  if (response.status === 204) return undefined as T;
  const value: unknown = await response.json().catch(() => null);
  if (response.ok) return value as T;
  if (response.status === 401 && value && typeof value === "object" && "oneTimeLink" in value) {
    throw new LoginNeeded(value as LoginMethods);
  }
  const known = value && typeof value === "object" && "message" in value;
  throw new ProblemError(
    known
      ? (value as Problem)
      : { status: response.status, reason: "Unexpected", message: `the server answered ${response.status}` },
  );
}

export const get = <T>(where: string, signal?: AbortSignal): Promise<T> =>
  request<T>("GET", where, undefined, signal);
export const post = <T>(where: string, body?: unknown): Promise<T> => request<T>("POST", where, body);

export async function readSession(): Promise<Session> {
  const session = await get<Session>("session");
  csrfToken = session.csrfToken;
  return session;
}

export async function login(token: string): Promise<Session> {
  const session = await request<Session>("POST", "session", { token });
  csrfToken = session.csrfToken;
  return session;
}

export async function logout(): Promise<void> {
  await request<void>("DELETE", "session");
}
