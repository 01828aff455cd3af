// The output of a pod, in a dialog.
import { Button, NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, path, pathWith } from "../api/client";
import type { PodLog, PodRow } from "../api/types";
import { CodeBlock } from "./CodeBlock";
import { Dialog } from "./Dialog";

const READ_MS = 3_000;

export function PodLogButton({ namespace, pod: row }: { namespace: string; pod: PodRow }) {
  const [opened, setOpened] = useState(false);
  const pod = row.name;
  return (
    <>
      <Button
        size="compact-xs"
        variant="default"
        aria-label={`Log of ${pod}`}
        onClick={() => setOpened(true)}
      >
        Log
      </Button>
      <Dialog opened={opened} onClose={() => setOpened(false)} title={`Log of ${pod}`}>
        {opened && <Logs namespace={namespace} pod={row} />}
      </Dialog>
    </>
  );
}

/** The output of one container; of several containers the user chooses one. */
function Logs({ namespace, pod }: { namespace: string; pod: PodRow }) {
  const [container, setContainer] = useState(pod.containers[0] ?? "");
  return (
    <div className="stack">
      {pod.containers.length > 1 && (
        <NativeSelect
          label="Container"
          size="xs"
          data={pod.containers}
          value={container}
          onChange={(event) => setContainer(event.currentTarget.value)}
        />
      )}
      <Log key={container} namespace={namespace} pod={pod.name} container={container} />
    </div>
  );
}

function Log({ namespace, pod, container }: { namespace: string; pod: string; container: string }) {
  const log = useQuery({
    queryKey: ["log", namespace, pod, container],
    queryFn: ({ signal }) =>
      get<PodLog>(pathWith(`${path("pods", namespace, pod)}/log`, container ? { container } : {}), signal),
    refetchInterval: READ_MS,
    retry: false,
  });
  if (log.isError) return <p role="alert">{log.error.message}</p>;
  if (!log.data) return <p className="muted">Reading the log …</p>;
  if (!log.data.text) return <p className="muted">It has written nothing yet.</p>;
  return <CodeBlock label={`Log of ${pod}`} text={log.data.text} />;
}
