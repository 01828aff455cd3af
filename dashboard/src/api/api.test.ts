import { describe, expect, test } from "vitest";
import { path, pathWith } from "./client";
import { reconnectDelay } from "./live";
import { keysOfTopic } from "./topics";

describe("topics of the event stream", () => {
  test.each([
    ["overview", [["overview"]]],
    ["nodes", [["nodes"]]],
    ["workloads/team-a/job-1", [["workloads"], ["workload", "team-a/job-1"]]],
    ["clusterqueues/vision", [["cluster-queues"], ["local-queues"], ["cluster-queue", "vision"]]],
    ["*", [[]]],
    ["something of a later version", [[]]],
  ])("%s concerns %j", (topic, keys) => expect(keysOfTopic(topic)).toEqual(keys));
});

test("the delay before a reconnect doubles, has an end, and differs between clients", () => {
  expect([0, 1, 2, 3, 9].map((attempt) => reconnectDelay(attempt, 0.5))).toEqual([
    500, 1_000, 2_000, 4_000, 15_000,
  ]);
  expect(reconnectDelay(9, 0)).toBeLessThan(reconnectDelay(9, 0.99));
});

test("names and parameters are encoded, and empty parameters left out", () => {
  expect(path("workloads", "a/b", "c d")).toBe("workloads/a%2Fb/c%20d");
  expect(pathWith("workloads", { q: "x&y", state: "", offset: 0, label: undefined })).toBe(
    "workloads?q=x%26y&offset=0",
  );
});
