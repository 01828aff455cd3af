// A button that changes the cluster: it asks first, and shows what the server refuses.
import { Button, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { post } from "../api/client";
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
      <Modal
        opened={asking}
        onClose={() => setAsking(false)}
        title={label}
        centered
        transitionProps={{ duration: 0 }}
        closeButtonProps={{ "aria-label": "Close" }}
      >
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
      </Modal>
    </>
  );
}
