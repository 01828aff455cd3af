import { ActionIcon, Menu } from "@mantine/core";
import { useNavigate } from "react-router";
import { useQueryClient } from "@tanstack/react-query";
import { logout } from "../api/client";
import type { Session } from "../api/types";
import { Icon } from "../components/Icon";
import { plural } from "../format/words";
import css from "./UserMenu.module.css";

export function UserMenu({
  session,
  onShowKeys,
  onLogout,
}: {
  session: Session;
  onShowKeys: () => void;
  onLogout: () => void;
}) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const leave = async () => {
    await logout().catch(() => undefined);
    queries.clear();
    onLogout();
    void navigate("/login");
  };
  return (
    <Menu position="bottom-end" width={280} transitionProps={{ duration: 0 }}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size={34} aria-label={`User ${session.user}`}>
          <Icon name="user" size={18} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <div className={css.account}>
          <strong className={css.name}>{session.user}</strong>
          <span className="small muted">
            at <code>{session.server}</code>
          </span>
          <span className="small muted">{scope(session)}</span>
        </div>
        <Menu.Divider />
        <Menu.Item leftSection={<Icon name="keyboard" />} onClick={onShowKeys}>
          Keyboard shortcuts
        </Menu.Item>
        <Menu.Item leftSection={<Icon name="close" />} onClick={() => void leave()}>
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function scope(session: Session): string {
  if (session.readsAllWorkloads) return "Sees the workloads of all namespaces";
  if (session.namespaces.length === 0) return "May list workloads in no namespace";
  if (session.namespaces.length > 3)
    return `Sees the workloads of ${plural(session.namespaces.length, "namespace")}`;
  return `Sees the workloads of ${session.namespaces.join(", ")}`;
}
