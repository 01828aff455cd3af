import { lazy, Suspense, useEffect, type ReactNode } from "react";
import { Navigate, Route, Routes, useLocation } from "react-router";
import { useQueryClient } from "@tanstack/react-query";
import { LoginNeeded } from "./api/client";
import { useSession } from "./api/queries";
import { ErrorBoundary } from "./components/ErrorBoundary";
import { ErrorState, Loading, NotFound } from "./components/PageState";
import { Shell } from "./shell/Shell";

const Overview = lazy(() => import("./views/overview/OverviewView"));
const Queues = lazy(() => import("./views/queues/QueuesView"));
const Queue = lazy(() => import("./views/queues/QueueView"));
const Workloads = lazy(() => import("./views/workloads/WorkloadsView"));
const Workload = lazy(() => import("./views/workloads/WorkloadView"));
const Gangs = lazy(() => import("./views/gangs/GangsView"));
const Gang = lazy(() => import("./views/gangs/GangView"));
const Nodes = lazy(() => import("./views/nodes/NodesView"));
const WhatIf = lazy(() => import("./views/what-if/WhatIfView"));
const Submit = lazy(() => import("./views/submit/SubmitView"));
const Login = lazy(() => import("./views/login/LoginView"));

/** The routes of the page; all but the one for logging in need a session. */
export function App() {
  return (
    <Suspense fallback={<Loading what="the page" />}>
      <Routes>
        <Route path="/login" element={<Login />} />
        <Route path="*" element={<WithSession />} />
      </Routes>
    </Suspense>
  );
}

function WithSession() {
  const session = useSession();
  const { pathname, search } = useLocation();
  const queries = useQueryClient();
  const loginNeeded = session.error instanceof LoginNeeded;
  useEffect(() => {
    if (loginNeeded) queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "session" });
  }, [loginNeeded, queries]);
  if (loginNeeded) return <Navigate to="/login" replace state={{ from: pathname + search }} />;
  if (session.isError && !session.data) {
    return <ErrorState error={session.error} what="the session" retry={() => void session.refetch()} />;
  }
  if (!session.data) return <Loading what="the session" />;
  return (
    <Shell
      session={session.data}
      onSessionEnd={() => void queries.invalidateQueries({ queryKey: ["session"] })}
    >
      <ErrorBoundary key={pathname}>
        <Suspense fallback={<Loading what="the view" />}>
          <Routes>
            <Route
              path="/"
              element={
                <Titled title="Overview">
                  <Overview session={session.data} />
                </Titled>
              }
            />
            <Route
              path="/queues"
              element={
                <Titled title="Queues">
                  <Queues />
                </Titled>
              }
            />
            <Route path="/queues/:name" element={<Queue />} />
            <Route
              path="/workloads"
              element={
                <Titled title="Workloads">
                  <Workloads />
                </Titled>
              }
            />
            <Route path="/workloads/:namespace/:name" element={<Workload />} />
            <Route
              path="/gangs"
              element={
                <Titled title="Gangs">
                  <Gangs />
                </Titled>
              }
            />
            <Route path="/gangs/:namespace/:name" element={<Gang />} />
            <Route
              path="/nodes"
              element={
                <Titled title="Nodes">
                  <Nodes session={session.data} />
                </Titled>
              }
            />
            <Route
              path="/submit"
              element={
                <Titled title="Submit">
                  <Submit />
                </Titled>
              }
            />
            <Route
              path="/what-if"
              element={
                <Titled title="What if">
                  <WhatIf />
                </Titled>
              }
            />
            <Route path="*" element={<NotFound />} />
          </Routes>
        </Suspense>
      </ErrorBoundary>
    </Shell>
  );
}

function Titled({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Quorate`;
  }, [title]);
  return children;
}
