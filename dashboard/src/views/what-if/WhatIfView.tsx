import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useRef, useState, type KeyboardEvent } from "react";
import { post } from "../../api/client";
import type { WhatIfAnswer, WhatIfRequest } from "../../api/types";
import { Icon } from "../../components/Icon";
import { Empty, ErrorState } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { MessageList } from "../../components/Text";
import { ComparisonTables } from "./ComparisonTables";
import css from "./WhatIfView.module.css";

const EXAMPLE = `# Manifests as for kubectl apply: what they name is replaced, all else stays as it is.
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: NAME
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - name: default
      resources:
      - name: cpu
        nominalQuota: 16
`;

const RUN_DURATIONS = ["10m", "30m", "1h", "4h", "12h", "24h"];

export default function WhatIfView() {
  const [manifests, setManifests] = useState("");
  const [runDuration, setRunDuration] = useState("1h");
  const file = useRef<HTMLInputElement>(null);
  const comparison = useMutation({
    mutationFn: (request: WhatIfRequest) => post<WhatIfAnswer>("what-if", request),
  });
  const run = () => comparison.mutate({ manifests, runDuration });
  const upload = async (chosen: FileList | null) => {
    const texts = await Promise.all([...(chosen ?? [])].map((each) => each.text()));
    if (texts.length > 0) setManifests(texts.join("\n---\n"));
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && manifests.trim()) run();
  };
  return (
    <div className="page">
      <div className="tight">
        <h1>What if</h1>
        <p className="muted">
          Simulate the cluster as it is, and with changed queues, quotas or nodes. Nothing in the cluster is
          changed.
        </p>
      </div>
      <div className="columns-form">
        <Panel
          title="Manifests"
          aside={
            <>
              <input
                ref={file}
                type="file"
                accept=".yaml,.yml,.json"
                multiple
                hidden
                onChange={(event) => void upload(event.currentTarget.files)}
              />
              <Button size="compact-xs" variant="default" onClick={() => setManifests(EXAMPLE)}>
                Example
              </Button>
              <Button
                size="compact-xs"
                variant="default"
                leftSection={<Icon name="upload" size={13} />}
                onClick={() => file.current?.click()}
              >
                Open a file
              </Button>
            </>
          }
        >
          <div className="stack">
            <textarea
              className={css.editor}
              aria-label="Manifests as YAML"
              placeholder="Paste, write or open manifests of ClusterQueues, Cohorts, ResourceFlavors, nodes …"
              value={manifests}
              spellCheck={false}
              rows={18}
              onChange={(event) => setManifests(event.currentTarget.value)}
              onKeyDown={pressed}
            />
            <div className="row">
              <Button
                size="sm"
                loading={comparison.isPending}
                disabled={manifests.trim() === ""}
                onClick={run}
              >
                Compare
              </Button>
              <label className="small">
                Work of unknown length runs for{" "}
                <select
                  className={css.select}
                  value={runDuration}
                  onChange={(event) => setRunDuration(event.currentTarget.value)}
                >
                  {RUN_DURATIONS.map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </select>
              </label>
            </div>
          </div>
        </Panel>
        <div aria-live="polite" className="answer">
          <Result answer={comparison.data} error={comparison.error} running={comparison.isPending} />
        </div>
      </div>
    </div>
  );
}

function Result({
  answer,
  error,
  running,
}: {
  answer: WhatIfAnswer | undefined;
  error: Error | null;
  running: boolean;
}) {
  if (running)
    return (
      <Panel title="Comparison">
        <p className="muted">Simulating twice: as it is, and as changed …</p>
      </Panel>
    );
  if (error)
    return (
      <Panel title="Comparison">
        <ErrorState error={error} what="the comparison" />
      </Panel>
    );
  if (!answer) {
    return (
      <Panel title="Comparison">
        <Empty icon="whatIf" title="No comparison yet">
          <p>
            Write manifests and choose <strong>Compare</strong>, or press Ctrl+Enter in the editor.
          </p>
        </Empty>
      </Panel>
    );
  }
  if (!answer.comparison) {
    return (
      <Panel title="The manifests have mistakes">
        <MessageList texts={answer.findings} />
      </Panel>
    );
  }
  return (
    <>
      {answer.findings.length > 0 && (
        <Panel title="Notes">
          <MessageList texts={answer.findings} />
        </Panel>
      )}
      <ComparisonTables comparison={answer.comparison} />
      <p className="small muted">
        Simulated in {answer.tookS.toFixed(1)} s. Run times: {answer.runTimes.join("; ") || "as given"}.
      </p>
    </>
  );
}
