import { useEffect, useEffectEvent, useRef } from "react";
import { useNavigate } from "react-router";

const SEQUENCE_MS = 1_200; // between the two keys of "g o"

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Handle the keys of the page: "/" searches, "?" lists the keys, "g" and a letter go to a view. */
export function useShortcuts(
  views: readonly { to: string; key: string }[],
  onSearch: () => void,
  onHelp: () => void,
): void {
  const navigate = useNavigate();
  const wentAt = useRef(0);
  const pressed = useEffectEvent((event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (document.querySelector("[role=dialog]")) return;
    if (event.key === "/") {
      event.preventDefault();
      onSearch();
    } else if (event.key === "?") onHelp();
    else if (event.timeStamp - wentAt.current < SEQUENCE_MS) {
      wentAt.current = 0;
      const view = views.find((each) => each.key === event.key);
      if (view) void navigate(view.to);
    } else if (event.key === "g") wentAt.current = event.timeStamp;
  });
  useEffect(() => {
    const handle = (event: KeyboardEvent) => pressed(event);
    window.addEventListener("keydown", handle);
    return () => window.removeEventListener("keydown", handle);
  }, []);
}
