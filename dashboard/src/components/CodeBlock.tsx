import { Button } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { Icon } from "./Icon";
import css from "./CodeBlock.module.css";

/** Text of several lines, such as a manifest or a log, with a button that copies it. */
export function CodeBlock({ label, text }: { label: string; text: string }) {
  const clipboard = useClipboard({ timeout: 1_500 });
  return (
    <div className={css.block}>
      <Button
        className={css.copy ?? ""}
        size="compact-xs"
        variant="default"
        leftSection={<Icon name={clipboard.copied ? "check" : "copy"} size={13} />}
        onClick={() => clipboard.copy(text)}
      >
        {clipboard.copied ? "Copied" : "Copy"}
      </Button>
      <pre className={css.text} tabIndex={0} role="region" aria-label={label}>
        {text}
      </pre>
    </div>
  );
}
