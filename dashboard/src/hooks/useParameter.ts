import { useCallback } from "react";
import { useSearchParams } from "react-router";

/** A choice that the address holds; the default value is left out of it. */
export function useParameter(name: string, initial: string): [string, (value: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = useCallback(
    (value: string) =>
      setParameters(
        (before) => {
          const after = new URLSearchParams(before);
          if (value === initial || value === "") after.delete(name);
          else after.set(name, value);
          return after;
        },
        { replace: true },
      ),
    [initial, name, setParameters],
  );
  return [parameters.get(name) ?? initial, set];
}
