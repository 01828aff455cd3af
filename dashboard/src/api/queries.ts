// One hook for each answer of the API; the event stream says when to read one again.
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { get, path, pathWith, readSession, type Query } from "./client";
import type {
  ClusterQueueDetail,
  ClusterQueueSummary,
  GangPlacement,
  GangQueueRow,
  LocalQueueSummary,
  NodesView,
  Overview,
  PodGroupDetail,
  PodGroupPage,
  SearchResult,
  Series,
  Session,
  SubmissionQueue,
  Transition,
  WorkloadDetail,
} from "./types";

const DETAIL_MS = 2_000;

export type Range = "hour" | "day" | "week" | "month";

export const useSession = (): UseQueryResult<Session> =>
  useQuery({
    queryKey: ["session"],
    queryFn: readSession,
    retry: false,
    staleTime: 60_000,
    refetchInterval: 300_000,
  });

export const useOverview = (): UseQueryResult<Overview> =>
  useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => get<Overview>("overview", signal) });

export const useClusterQueues = (): UseQueryResult<ClusterQueueSummary[]> =>
  useQuery({
    queryKey: ["cluster-queues"],
    queryFn: ({ signal }) => get<ClusterQueueSummary[]>("cluster-queues", signal),
  });

export const useClusterQueue = (name: string): UseQueryResult<ClusterQueueDetail> =>
  useQuery({
    queryKey: ["cluster-queue", name],
    queryFn: ({ signal }) => get<ClusterQueueDetail>(path("cluster-queues", name), signal),
  });

export const useLocalQueues = (): UseQueryResult<LocalQueueSummary[]> =>
  useQuery({
    queryKey: ["local-queues"],
    queryFn: ({ signal }) => get<LocalQueueSummary[]>("local-queues", signal),
  });

export const useSubmissionQueues = (): UseQueryResult<SubmissionQueue[]> =>
  useQuery({
    queryKey: ["submission-queues"],
    queryFn: ({ signal }) => get<SubmissionQueue[]>("submission-queues", signal),
    staleTime: 60_000,
  });

export const useWorkload = (namespace: string, name: string): UseQueryResult<WorkloadDetail> =>
  useQuery({
    queryKey: ["workload", `${namespace}/${name}`],
    queryFn: ({ signal }) => get<WorkloadDetail>(path("workloads", namespace, name), signal),
    // Pods without a node and events change without a notice: they are read as the user, for each answer.
    refetchInterval: ({ state }) => (state.data?.row.state === "Finished" ? false : DETAIL_MS),
  });

export const usePodGroups = (query: Query): UseQueryResult<PodGroupPage> =>
  useQuery({
    queryKey: ["pod-groups", pathWith("", query)],
    queryFn: ({ signal }) => get<PodGroupPage>(pathWith("pod-groups", query), signal),
    placeholderData: keepPreviousData,
  });

export const usePodGroup = (namespace: string, name: string): UseQueryResult<PodGroupDetail> =>
  useQuery({
    queryKey: ["pod-group", `${namespace}/${name}`],
    queryFn: ({ signal }) => get<PodGroupDetail>(path("pod-groups", namespace, name), signal),
    refetchInterval: ({ state }) => (state.data?.row.phase === "Completed" ? false : DETAIL_MS),
  });

export const useGangQueues = (): UseQueryResult<GangQueueRow[]> =>
  useQuery({
    queryKey: ["gang-queues"],
    queryFn: ({ signal }) => get<GangQueueRow[]>("gang-queues", signal),
  });

export const useNodes = (query: Query, enabled = true): UseQueryResult<NodesView> =>
  useQuery({
    enabled,
    queryKey: ["nodes", pathWith("", query)],
    queryFn: ({ signal }) => get<NodesView>(pathWith("nodes", query), signal),
    placeholderData: keepPreviousData,
  });

export const useGangPlacement = (query: Query | null): UseQueryResult<GangPlacement> =>
  useQuery({
    queryKey: ["nodes", "gang-placement", pathWith("", query ?? {})],
    queryFn: ({ signal }) => get<GangPlacement>(pathWith("gang-placement", query ?? {}), signal),
    enabled: query !== null,
    placeholderData: keepPreviousData,
  });

export const useHistory = (of: string, range: Range): UseQueryResult<Series> =>
  useQuery({
    queryKey: ["history", of, range],
    queryFn: ({ signal }) => get<Series>(pathWith(`history/${of}`, { range }), signal),
    refetchInterval: range === "hour" ? 15_000 : 60_000,
    placeholderData: keepPreviousData,
  });

export const useTransitions = (clusterQueue?: string): UseQueryResult<Transition[]> =>
  useQuery({
    queryKey: ["transitions", clusterQueue ?? ""],
    queryFn: ({ signal }) => get<Transition[]>(pathWith("transitions", { clusterQueue }), signal),
    refetchInterval: 15_000,
  });

export const useSearch = (text: string): UseQueryResult<SearchResult> =>
  useQuery({
    queryKey: ["search", text],
    queryFn: ({ signal }) => get<SearchResult>(pathWith("search", { q: text }), signal),
    enabled: text.trim().length > 0,
    placeholderData: keepPreviousData,
    staleTime: 2_000,
  });
