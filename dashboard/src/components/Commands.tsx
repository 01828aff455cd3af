import { ActionIcon, Tooltip } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { Icon } from "./Icon";
import css from "./Commands.module.css";

/** kubectl commands, each with a button that copies it. */
export function Commands({ commands }: { commands: readonly string[] }) {
  return (
    <ul className={css.commands}>
      {commands.map((command) => (
        <Command key={command} command={command} />
      ))}
    </ul>
  );
}

export function Command({ command }: { command: string }) {
  const clipboard = useClipboard({ timeout: 1_500 });
  return (
    <li className={css.command}>
      <code className={css.text}>{command}</code>
      <Tooltip label={clipboard.copied ? "Copied" : "Copy"} withArrow>
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={`Copy: ${command}`}
          onClick={() => clipboard.copy(command)}
        >
          <Icon name={clipboard.copied ? "check" : "copy"} />
        </ActionIcon>
      </Tooltip>
      <span className="hidden-text" role="status">
        {clipboard.copied ? "Copied" : ""}
      </span>
    </li>
  );
}
