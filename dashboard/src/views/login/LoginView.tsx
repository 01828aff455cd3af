import { Button, PasswordInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { Navigate, useLocation, useNavigate } from "react-router";
import { login, LoginNeeded, readSession } from "../../api/client";
import { Command } from "../../components/Commands";
import { ErrorState, Loading } from "../../components/PageState";
import { ThemeSwitch } from "../../shell/ThemeSwitch";
import { useTitle } from "../../hooks/useTitle";
import css from "./LoginView.module.css";

export default function LoginView() {
  useTitle("Log in");
  const location = useLocation();
  const from = (location.state as { from?: string } | null)?.from ?? "/";
  const session = useQuery({ queryKey: ["session"], queryFn: readSession, retry: false, staleTime: 0 });
  if (session.data && !session.isError) return <Navigate to={from} replace />;
  const methods = session.error instanceof LoginNeeded ? session.error.methods : null;
  return (
    <main className={css.page}>
      <div className={css.theme}>
        <ThemeSwitch />
      </div>
      <div className={css.card}>
        <h1 className={css.brand}>
          <img src="/favicon.svg" alt="" width={34} height={34} /> Log in to Quorate
        </h1>
        <p className="muted">You see what your Kubernetes user may see, and nothing more.</p>
        {session.isPending && <Loading what="how to log in" />}
        {session.isError && !methods && (
          <ErrorState error={session.error} what="the login" retry={() => void session.refetch()} />
        )}
        {methods?.oidcIssuer && (
          <div className="tight">
            <Button component="a" href="/login/oidc" fullWidth>
              Log in with single sign-on
            </Button>
            <p className="small muted">
              at <code>{methods.oidcIssuer}</code>
            </p>
          </div>
        )}
        {methods?.oneTimeLink && (
          <p className={css.hint}>
            On this machine you need no token: open the link that <code>quorate dashboard</code> printed when
            it started. It works once; start the dashboard again for another.
          </p>
        )}
        {methods?.token && <TokenForm from={from} />}
      </div>
    </main>
  );
}

function TokenForm({ from }: { from: string }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      queries.setQueryData(["session"], await login(token.trim()));
      void navigate(from, { replace: true });
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} className="stack">
      <PasswordInput
        label="Token"
        description="A bearer token of your user or service account."
        value={token}
        onChange={(event) => setToken(event.currentTarget.value)}
        error={problem || undefined}
        autoComplete="off"
        spellCheck={false}
        visibilityToggleButtonProps={{ "aria-label": "Show the token", tabIndex: 0 }}
        data-autofocus
      />
      <Button type="submit" loading={busy} disabled={token.trim() === ""}>
        Log in with the token
      </Button>
      <details className="small">
        <summary>Where do I get a token?</summary>
        <div className={css.where}>
          <p>For a service account of a namespace:</p>
          <ul>
            <Command command="kubectl create token SERVICEACCOUNT --namespace NAMESPACE" />
          </ul>
          <p>It is sent to this server only, and kept by it until you log out.</p>
        </div>
      </details>
    </form>
  );
}
