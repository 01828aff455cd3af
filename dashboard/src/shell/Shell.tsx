// The frame around each view: navigation, search, the state of the event stream, theme and user.
import { useMemo, useState, type ReactNode } from "react";
import { NavLink } from "react-router";
import { useSubmissionQueues } from "../api/queries";
import type { Session } from "../api/types";
import { Icon, type IconName } from "../components/Icon";
import { useLive } from "./useLive";
import { LiveStateContext } from "../api/liveState";
import { LiveIndicator } from "./LiveIndicator";
import { SearchDialog } from "./SearchDialog";
import { ShortcutsDialog } from "./ShortcutsDialog";
import { ThemeSwitch } from "./ThemeSwitch";
import { UserMenu } from "./UserMenu";
import { useShortcuts } from "./useShortcuts";
import css from "./Shell.module.css";

export const VIEWS: { to: string; label: string; icon: IconName; key: string }[] = [
  { to: "/", label: "Overview", icon: "overview", key: "o" },
  { to: "/queues", label: "Queues", icon: "queues", key: "q" },
  { to: "/workloads", label: "Workloads", icon: "workloads", key: "w" },
  { to: "/gangs", label: "Gangs", icon: "gangs", key: "g" },
  { to: "/nodes", label: "Nodes", icon: "nodes", key: "n" },
  { to: "/submit", label: "Submit", icon: "upload", key: "s" },
  { to: "/what-if", label: "What if", icon: "whatIf", key: "i" },
];

/** Return the views of what the user may do. */
function useAllowedViews(session: Session): typeof VIEWS {
  const queues = useSubmissionQueues();
  const maySubmit = (queues.data?.length ?? 0) > 0;
  const mayCompare = session.readsAllWorkloads && session.readsClusterQueues;
  return useMemo(
    () =>
      VIEWS.filter(
        ({ to }) =>
          (to !== "/submit" || maySubmit) &&
          (to !== "/what-if" || mayCompare) &&
          (to !== "/nodes" || session.readsNodes),
      ),
    [maySubmit, mayCompare, session.readsNodes],
  );
}

export function Shell({
  session,
  onSessionEnd,
  children,
}: {
  session: Session;
  onSessionEnd: () => void;
  children: ReactNode;
}) {
  const live = useLive(onSessionEnd);
  const views = useAllowedViews(session);
  const [searching, setSearching] = useState(false);
  const [showingKeys, setShowingKeys] = useState(false);
  useShortcuts(
    views,
    () => setSearching(true),
    () => setShowingKeys(true),
  );
  return (
    <div className={css.frame}>
      <a className={css.skip} href="#content">
        Skip to the content
      </a>
      <header className={css.header}>
        <span className={css.brand}>
          <img src="/favicon.svg" alt="" width={22} height={22} />{" "}
          <span className={css.brandName}>Quorate</span>
        </span>
        <button
          type="button"
          className={css.search}
          onClick={() => setSearching(true)}
          aria-label="Search (key /)"
        >
          <Icon name="search" /> <span className={css.searchText}>Search</span>{" "}
          <kbd className={css.searchKey}>/</kbd>
        </button>
        <span className={css.tools}>
          <LiveIndicator state={live} />
          <ThemeSwitch />
          <UserMenu session={session} onShowKeys={() => setShowingKeys(true)} onLogout={onSessionEnd} />
        </span>
      </header>
      <nav className={css.navigation} aria-label="Views">
        {views.map((view) => (
          <NavLink
            key={view.to}
            to={view.to}
            end={view.to === "/"}
            className={css.item ?? ""}
            title={`${view.label} (keys g ${view.key})`}
          >
            <Icon name={view.icon} size={18} />
            <span>{view.label}</span>
          </NavLink>
        ))}
      </nav>
      <main id="content" className={css.content} tabIndex={-1}>
        <LiveStateContext value={live}>{children}</LiveStateContext>
      </main>
      <SearchDialog opened={searching} onClose={() => setSearching(false)} />
      <ShortcutsDialog opened={showingKeys} onClose={() => setShowingKeys(false)} views={views} />
    </div>
  );
}
