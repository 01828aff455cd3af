import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useState } from "react";
import { LiveConnection, type LiveState } from "../api/live";

/** Keep the event stream open while the page is shown, and return its state. */
export function useLive(onSessionEnd: () => void): LiveState {
  const queries = useQueryClient();
  const [state, setState] = useState<LiveState>({ kind: "connecting" });
  const ended = useEffectEvent(onSessionEnd);
  useEffect(() => {
    const connection = new LiveConnection(queries, setState, () => ended());
    connection.start();
    return () => connection.stop();
  }, [queries]);
  return state;
}
