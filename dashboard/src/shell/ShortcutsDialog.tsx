import { Dialog } from "../components/Dialog";
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
    <Dialog opened={opened} onClose={onClose} title="Keyboard shortcuts">
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
    </Dialog>
  );
}
