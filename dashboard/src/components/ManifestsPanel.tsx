// The job and the workload as YAML, read when they are asked for.
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, path } from "../api/client";
import type { Manifest } from "../api/types";
import { CodeBlock } from "./CodeBlock";
import { Panel } from "./Panel";

export function ManifestsPanel({ namespace, name }: { namespace: string; name: string }) {
  const [shown, setShown] = useState(false);
  const manifests = useQuery({
    queryKey: ["manifests", namespace, name],
    queryFn: ({ signal }) => get<Manifest[]>(`${path("workloads", namespace, name)}/manifests`, signal),
    enabled: shown,
    retry: false,
  });
  return (
    <Panel
      title="YAML"
      aside={
        <Button
          size="compact-xs"
          variant="default"
          aria-expanded={shown}
          onClick={() => setShown((before) => !before)}
        >
          {shown ? "Hide" : "Show"}
        </Button>
      }
    >
      {shown && (
        <div className="stack">
          {manifests.isError && <p role="alert">{manifests.error.message}</p>}
          {manifests.isPending && <p className="muted">Reading …</p>}
          {manifests.data?.map(({ kind, text }, at) => (
            <CodeBlock key={`${kind}${at}`} label={`${kind} as YAML`} text={text} />
          ))}
        </div>
      )}
    </Panel>
  );
}
