import { Modal } from "@mantine/core";
import css from "./ShortcutsDialog.module.css";

export function ShortcutsDialog({
  opened,
  onClose,
  views,
}: {
  opened: boolean;
  onClose: () => void;
  views: readonly { label: string; key: string }[];
}) {
  const keys: [string, string][] = [
    ["/", "Search queues, workloads, gangs and nodes"],
    ...views.map(({ key, label }): [string, string] => [`g ${key}`, `Go to ${label}`]),
    ["↑ ↓", "Move between the rows of a list"],
    ["Enter", "Open the row"],
    ["?", "Show this list"],
    ["Esc", "Close a dialog"],
  ];
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title="Keyboard shortcuts"
      transitionProps={{ duration: 0 }}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <dl className={css.keys}>
        {keys.map(([key, meaning]) => (
          <div key={key} className={css.line}>
            <dt>
              {key.split(" ").map((part) => (
                <kbd key={part}>{part}</kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
