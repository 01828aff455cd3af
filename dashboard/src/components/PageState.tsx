// What a view shows while it has nothing to show: loading, empty, failed. Each says what to do.
import { Button, Loader } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { ProblemError } from "../api/client";
import { DataAge } from "./DataAge";
import { Icon, type IconName } from "./Icon";
import css from "./PageState.module.css";

export function Loading({ what }: { what: string }) {
  return (
    <div className={css.state} role="status">
      <Loader size="sm" aria-hidden />
      <p className="muted">Reading {what} …</p>
    </div>
  );
}

export function Empty({
  icon = "empty",
  title,
  children,
}: {
  icon?: IconName;
  title: string;
  children?: ReactNode;
}) {
  return (
    <div className={css.state}>
      <Icon name={icon} size={28} />
      <p className={css.title}>{title}</p>
      {children && <div className={css.text}>{children}</div>}
    </div>
  );
}

const REMEDIES: Record<number, string> = {
  0: "Start it again, or check the address. The page tries again by itself when it is back.",
  403: "Ask an administrator for the right, or log in as another user.",
  404: "It may have been deleted. Search for it with the key /, or go back.",
  429: "Wait some seconds and try again.",
  503: "The server has not yet read the cluster, or has lost it. Try again in some seconds.",
};

export function ErrorState({ error, what, retry }: { error: unknown; what: string; retry?: () => void }) {
  const problem = error instanceof ProblemError ? error.problem : null;
  const message = problem?.message ?? (error instanceof Error ? error.message : String(error));
  const remedy =
    REMEDIES[problem?.status ?? -1] ??
    "Try again; if it fails again, the log of `quorate dashboard` says more.";
  return (
    <div className={css.state} role="alert">
      <Icon name="problem" size={28} />
      <p className={css.title}>Cannot show {what}</p>
      <div className={css.text}>
        <p>
          {problem && problem.status > 0 && (
            <code>
              {problem.status} {problem.reason}
            </code>
          )}{" "}
          {message}
        </p>
        <p className="muted">{remedy}</p>
      </div>
      {retry && (
        <Button variant="default" size="xs" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function NotFound() {
  return (
    <Empty icon="problem" title="No such page">
      <p>
        The address has a mistake. <Link to="/">Go to the overview</Link>, or search with the key <kbd>/</kbd>
        .
      </p>
    </Empty>
  );
}

/** Show the answer of a query, or the state that it is in instead. */
export function Answered<T>({
  query,
  what,
  children,
}: {
  query: UseQueryResult<T>;
  what: string;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined)
    return (
      <>
        <DataAge query={query} />
        {children(query.data)}
      </>
    );
  if (query.isError) return <ErrorState error={query.error} what={what} retry={() => void query.refetch()} />;
  return <Loading what={what} />;
}
