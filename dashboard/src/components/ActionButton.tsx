// A button that changes the cluster: it asks first, and shows what the server refuses.
import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { post } from "../api/client";
import { Dialog } from "./Dialog";
import { Icon, type IconName } from "./Icon";

interface Props {
  label: string;
  icon: IconName;
  path: string; // of the operation
  question: ReactNode; // what will happen
}

export function ActionButton({ label, icon, path, question }: Props) {
  const [asking, setAsking] = useState(false);
  const queries = useQueryClient();
  const action = useMutation({
    mutationFn: () => post<void>(path),
    onSuccess: () => {
      setAsking(false);
      void queries.invalidateQueries();
    },
  });
  return (
    <>
      <Button
        size="xs"
        variant="default"
        leftSection={<Icon name={icon} size={14} />}
        onClick={() => setAsking(true)}
      >
        {label}
      </Button>
      <Dialog opened={asking} onClose={() => setAsking(false)} title={label}>
        <div className="stack">
          <p>{question}</p>
          {action.isError && (
            <p role="alert">
              <strong>Refused:</strong> {action.error.message}
            </p>
          )}
          <div className="row">
            <Button size="xs" loading={action.isPending} onClick={() => action.mutate()}>
              {label}
            </Button>
            <Button size="xs" variant="default" onClick={() => setAsking(false)}>
              Cancel
            </Button>
          </div>
        </div>
      </Dialog>
    </>
  );
}
