import type { UseQueryResult } from "@tanstack/react-query";
import { useContext } from "react";
import { dataAge, formatDuration } from "../format/time";
import { useNow } from "../hooks/useNow";
import { LiveStateContext } from "../api/liveState";
import css from "./DataAge.module.css";

type Read = Pick<UseQueryResult, "dataUpdatedAt" | "isRefetchError">;

/** Say how old the data of a list is, once it does not follow the cluster for some seconds. */
export function DataAge({ query }: { query: Read }) {
  const live = useContext(LiveStateContext);
  return live.kind === "live" && !query.isRefetchError ? null : <Age query={query} />;
}

function Age({ query }: { query: Read }) {
  const age = dataAge(useContext(LiveStateContext), query, useNow());
  if (age === null) return null;
  return (
    <p className={css.age} role="note">
      As it was {formatDuration(age / 1000)} ago
    </p>
  );
}
