import { Modal } from "@mantine/core";
import type { ReactNode } from "react";
import css from "./Dialog.module.css";

interface Props {
  title: string;
  opened: boolean;
  onClose: () => void;
  children: ReactNode;
}

/**
 * A dialog with a title and a button that closes it. The library's own header would be a second banner, and
 * its lock of the scroll position is a <style> element, which the content policy refuses.
 */
export function Dialog({ title, opened, onClose, children }: Props) {
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      centered
      lockScroll={false}
      transitionProps={{ duration: 0 }}
    >
      <Modal.Overlay />
      <Modal.Content>
        <div className={css.head}>
          <Modal.Title className={css.title}>{title}</Modal.Title>
          <Modal.CloseButton aria-label="Close" />
        </div>
        <Modal.Body>{children}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}
