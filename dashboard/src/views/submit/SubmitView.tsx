// A form for `quorate submit`: it is checked by the server, with the same rules as --dry-run, before it is sent.
import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactNode } from "react";
import { Link } from "react-router";
import { post } from "../../api/client";
import { useSubmissionQueues } from "../../api/queries";
import type { SubmissionAnswer, SubmissionQueue, SubmissionRequest } from "../../api/types";
import { CodeBlock } from "../../components/CodeBlock";
import { Answered, Empty, ErrorState } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { Message, MessageList } from "../../components/Text";
import css from "./SubmitView.module.css";

const STARTS: Record<SubmissionAnswer["starts"], string> = {
  Now: "It would start now",
  Later: "It would wait",
  Never: "It can never start",
  Unknown: "The server accepts it",
};

export default function SubmitView() {
  const queues = useSubmissionQueues();
  return (
    <div className="page">
      <div className="tight">
        <h1>Submit a job</h1>
        <p className="muted">
          The same job as of <code>quorate submit</code>. Check it first: nothing is created then.
        </p>
      </div>
      <Answered query={queues} what="the queues">
        {(found) =>
          found.length > 0 ? (
            <Form queues={found} />
          ) : (
            <Empty icon="queues" title="No queue">
              <p>There is no local queue in a namespace in which you may create jobs.</p>
            </Empty>
          )
        }
      </Answered>
    </div>
  );
}

function Form({ queues }: { queues: readonly SubmissionQueue[] }) {
  const [chosen, setChosen] = useState(0);
  const [texts, setTexts] = useState({ command: "", name: "", image: "", memory: "", timeLimit: "" });
  const [cpus, setCpus] = useState("1");
  const [pods, setPods] = useState("1");
  const [gpus, setGpus] = useState("0");
  const [gang, setGang] = useState(false);
  const client = useQueryClient();
  const submission = useMutation({
    mutationFn: (request: SubmissionRequest) => post<SubmissionAnswer>("submissions", request),
    onSuccess: (_, request) => {
      if (!request.dryRun) void client.invalidateQueries();
    },
  });
  const send = (dryRun: boolean) => {
    const queue = queues[chosen] ?? queues[0];
    if (!queue) return;
    submission.mutate({
      ...texts,
      namespace: queue.namespace,
      localQueue: queue.name,
      cpus,
      pods: Number(pods),
      minPods: null,
      gpus: Number(gpus),
      gang,
      dryRun,
    });
  };
  const text = (name: keyof typeof texts) => ({
    value: texts[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      setTexts((before) => ({ ...before, [name]: value }));
    },
  });
  const submitted = (event: FormEvent) => {
    event.preventDefault();
    send(true);
  };
  return (
    <div className="columns-form">
      <Panel title="Job">
        <form className={css.form} onSubmit={submitted}>
          <Field label="Queue">
            <select value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
              {queues.map((queue, at) => (
                <option key={`${queue.namespace}/${queue.name}`} value={at}>
                  {queue.namespace}/{queue.name}
                </option>
              ))}
            </select>
          </Field>
          <Field label="Command" wide>
            <input
              {...text("command")}
              required
              spellCheck={false}
              placeholder="python train.py --epochs 10"
            />
          </Field>
          <Field label="Image" wide>
            <input {...text("image")} spellCheck={false} placeholder="python:3-slim" />
          </Field>
          <Field label="Name">
            <input {...text("name")} spellCheck={false} placeholder="made up" />
          </Field>
          <Field label="Pods">
            <input
              type="number"
              min={1}
              max={10000}
              value={pods}
              onChange={(event) => setPods(event.currentTarget.value)}
            />
          </Field>
          <Field label="CPUs of each pod">
            <input value={cpus} onChange={(event) => setCpus(event.currentTarget.value)} />
          </Field>
          <Field label="Memory of each pod">
            <input {...text("memory")} placeholder="16Gi" />
          </Field>
          <Field label="GPUs of each pod">
            <input
              type="number"
              min={0}
              value={gpus}
              onChange={(event) => setGpus(event.currentTarget.value)}
            />
          </Field>
          <Field label="Time limit">
            <input {...text("timeLimit")} placeholder="none, or 2h" />
          </Field>
          <label className={css.check}>
            <input
              type="checkbox"
              checked={gang}
              onChange={(event) => setGang(event.currentTarget.checked)}
            />{" "}
            Start all pods together, as a gang
          </label>
          <div className={`row ${css.wide}`}>
            <Button type="submit" variant="default" loading={submission.isPending}>
              Check
            </Button>
            <Button
              disabled={submission.isPending || texts.command.trim() === ""}
              onClick={() => send(false)}
            >
              Submit
            </Button>
          </div>
        </form>
      </Panel>
      <div aria-live="polite" className="answer">
        <Result
          answer={submission.data}
          request={submission.variables}
          error={submission.error}
          running={submission.isPending}
        />
      </div>
    </div>
  );
}

function Field({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <label className={`${css.field} ${wide ? css.wide : ""}`}>
      <span className="small muted">{label}</span>
      {children}
    </label>
  );
}

function Result({
  answer,
  request,
  error,
  running,
}: {
  answer: SubmissionAnswer | undefined;
  request: SubmissionRequest | undefined;
  error: Error | null;
  running: boolean;
}) {
  if (running)
    return (
      <Panel title="Answer">
        <p className="muted">Asking the server …</p>
      </Panel>
    );
  if (error)
    return (
      <Panel title="Refused">
        <ErrorState error={error} what="the job" />
      </Panel>
    );
  if (!answer || !request)
    return (
      <Panel title="Answer">
        <Empty icon="workloads" title="Not checked yet">
          <p>
            <strong>Check</strong> says whether and when the job would start.
          </p>
        </Empty>
      </Panel>
    );
  return (
    <>
      {request.dryRun ? (
        <Panel title={STARTS[answer.starts]}>
          <p>
            <Message text={answer.message} />
          </p>
          {answer.enough.length > 0 && <MessageList texts={answer.enough} />}
          {answer.planned && (
            <p>
              <Message text={answer.planned} />
            </p>
          )}
          {answer.estimate && (
            <p>
              <Message text={answer.estimate} />
            </p>
          )}
        </Panel>
      ) : (
        <Panel title="Submitted">
          <p>
            <code>{answer.name}</code> is created.{" "}
            <Link to={`/workloads?namespace=${request.namespace}&q=${answer.name}`}>Show its workload</Link>
          </p>
        </Panel>
      )}
      <Panel title="YAML">
        <CodeBlock label="The job as YAML" text={answer.manifests} />
      </Panel>
    </>
  );
}
