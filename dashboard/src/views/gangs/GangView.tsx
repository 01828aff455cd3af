import { useParams } from "react-router";
import { usePodGroup } from "../../api/queries";
import type { PodGroupDetail } from "../../api/types";
import { Breadcrumb } from "../../components/Breadcrumb";
import { Commands } from "../../components/Commands";
import { ExplanationPanel } from "../../components/ExplanationPanel";
import { LifeBar } from "../../components/LifeBar";
import { Milestones } from "../../components/Milestones";
import { Answered } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { EventsPanel, PodsPanel } from "../../components/PodsAndEvents";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Facts, Message } from "../../components/Text";
import { useTitle } from "../../hooks/useTitle";
import { Members } from "./GangsView";

export default function GangView() {
  const { namespace = "", name = "" } = useParams();
  useTitle(name);
  const group = usePodGroup(namespace, name);
  return (
    <Answered query={group} what={`the pod group ${namespace}/${name}`}>
      {(detail) => <Detail detail={detail} />}
    </Answered>
  );
}

function Detail({ detail }: { detail: PodGroupDetail }) {
  const { row } = detail;
  const resources = Object.entries(detail.minResources).map(
    ([resource, quantity]) => `${quantity} ${resource}`,
  );
  return (
    <div className="page">
      <div className="tight">
        <Breadcrumb to="/gangs" label="Gangs" />
        <h1 className="row">
          {row.name} <StateBadge state={row.phase} />
        </h1>
        <p className="muted">
          <code>PodGroup</code> in namespace {row.namespace}
        </p>
        {row.reason && (
          <p>
            <Message text={row.reason} />
          </p>
        )}
      </div>
      <Panel title="Life">
        <div className="stack">
          <LifeBar milestones={detail.milestones} />
          <Facts
            facts={[
              ["Pods placed of minMember", <Members key="m" group={row} />],
              ["Queue", row.queue || "none"],
              ["minResources", resources.join(", ") || "none"],
              ["Priority class", row.priorityClass || "none"],
              ["Created", <Ago key="c" at={row.createdAt} />],
            ]}
          />
        </div>
      </Panel>
      <div className="columns-wide">
        <div className="stack">
          <ExplanationPanel explanation={detail.explanation} problem={detail.explanationProblem} />
          <PodsPanel
            namespace={detail.row.namespace}
            pods={detail.pods}
            whenNone="No pods exist yet, or you may not list them."
          />
        </div>
        <div className="stack">
          <Panel title="Timeline">
            <Milestones milestones={detail.milestones} />
          </Panel>
          <Panel title="On the command line">
            <Commands commands={detail.commands} />
          </Panel>
          <EventsPanel events={detail.events} />
        </div>
      </div>
    </div>
  );
}
