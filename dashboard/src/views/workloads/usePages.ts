// Pages of the list of workloads: those that are visible are read, and read again when they change.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { get, pathWith, type Query } from "../../api/client";
import type { WorkloadPage, WorkloadRow } from "../../api/types";

const PAGE = 100;

interface Pages {
  first: ReturnType<typeof useQuery<WorkloadPage>>;
  rowAt: (index: number) => WorkloadRow | undefined;
  onVisible: (first: number, last: number) => void;
}

export function usePages(query: Query): Pages {
  const [visible, setVisible] = useState<[number, number]>([0, 0]);
  const key = pathWith("", query);
  const pageQuery = (page: number) => ({
    queryKey: ["workloads", key, String(page)],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      get<WorkloadPage>(pathWith("workloads", { ...query, offset: page * PAGE, limit: PAGE }), signal),
  });
  const first = useQuery({ ...pageQuery(0), placeholderData: keepPreviousData });
  const numbers = Array.from({ length: visible[1] - visible[0] + 1 }, (_, at) => visible[0] + at).filter(
    (page) => page > 0,
  );
  const others = useQueries({ queries: numbers.map(pageQuery) });
  const rowAt = (index: number) => {
    const page = Math.floor(index / PAGE);
    const answer = page === 0 ? first.data : others[numbers.indexOf(page)]?.data;
    return answer?.items[index % PAGE];
  };
  const onVisible = useCallback((from: number, to: number) => {
    const next: [number, number] = [Math.floor(from / PAGE), Math.floor(to / PAGE)];
    setVisible((before) => (before[0] === next[0] && before[1] === next[1] ? before : next));
  }, []);
  return { first, rowAt, onVisible };
}
