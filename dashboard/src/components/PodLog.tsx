// The output of a pod, in a dialog.
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get, path } from "../api/client";
import type { PodLog } from "../api/types";
import { CodeBlock } from "./CodeBlock";
import { Dialog } from "./Dialog";

const READ_MS = 3_000;

export function PodLogButton({ namespace, pod }: { namespace: string; pod: string }) {
  const [opened, setOpened] = useState(false);
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
        {opened && <Log namespace={namespace} pod={pod} />}
      </Dialog>
    </>
  );
}

function Log({ namespace, pod }: { namespace: string; pod: string }) {
  const log = useQuery({
    queryKey: ["log", namespace, pod],
    queryFn: ({ signal }) => get<PodLog>(`${path("pods", namespace, pod)}/log`, signal),
    refetchInterval: READ_MS,
    retry: false,
  });
  if (log.isError) return <p role="alert">{log.error.message}</p>;
  if (!log.data) return <p className="muted">Reading the log …</p>;
  if (!log.data.text) return <p className="muted">The pod has written nothing yet.</p>;
  return <CodeBlock label={`Log of ${pod}`} text={log.data.text} />;
}
