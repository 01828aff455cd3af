import { Link } from "react-router";

/** The list that an object is in, above its name. */
export function Breadcrumb({ to, label }: { to: string; label: string }) {
  return (
    <nav aria-label="Breadcrumb" className="small">
      <Link to={to}>{label}</Link>{" "}
      <span className="muted" aria-hidden>
        /
      </span>
    </nav>
  );
}
