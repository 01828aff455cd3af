// The state of the event stream, for the parts of a view that say how old their data is.
import { createContext } from "react";
import type { LiveState } from "./live";

export const LiveStateContext = createContext<LiveState>({ kind: "connecting" });
