import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useGangPlacement, useNodes } from "../../api/queries";
import type { NodesView as View, Session } from "../../api/types";
import { ChoiceFilter, FilterBar } from "../../components/FilterBar";
import { Answered, Empty } from "../../components/PageState";
import { Panel } from "../../components/Panel";
import { levelName, nodesOf } from "../../format/domains";
import { plural } from "../../format/words";
import { useParameter } from "../../hooks/useParameter";
import { GangPanel, gangQuery, useGang } from "./GangPanel";
import { HeatMap, HeatMapLegend } from "./HeatMap";
import { NodePanel } from "./NodePanel";

const NO_TOPOLOGY = "none";

export default function NodesView({ session }: { session: Session }) {
  const [topology, setTopology] = useParameter("topology", "");
  const [gang, setGang] = useGang();
  const query = gangQuery(gang);
  // Without a choice the nodes are shown by the first topology, or without one if it has no nodes.
  const plain = useNodes({}, topology === "");
  const first = plain.data?.topologies[0] ?? "";
  const byFirst = useNodes({ topology: first }, topology === "" && first !== "");
  const usual = byFirst.data?.root.nodes === 0 ? "" : first;
  const shown = topology === NO_TOPOLOGY ? "" : topology || usual;
  const nodes = useNodes({ topology: shown, ...query }, topology !== "" || plain.isFetched);
  if (!session.readsNodes) {
    return (
      <Empty icon="nodes" title="You may not list nodes">
        <p>
          The heat map needs the right to list <code>nodes</code>: ask an administrator for it.
        </p>
      </Empty>
    );
  }
  return (
    <div className="page">
      <h1>Nodes</h1>
      <Answered query={nodes} what="the nodes">
        {(view) => (
          <>
            <FilterBar summary={plural(view.root.nodes, "node")}>
              <ChoiceFilter
                label="Topology"
                all={view.topology ? `Topology ${view.topology}` : "Without topology"}
                choices={[
                  ...view.topologies.filter((name) => topology !== "" || name !== view.topology),
                  ...(view.topologies.length > 0
                    ? [[NO_TOPOLOGY, "Without topology"] as [string, string]]
                    : []),
                ]}
                value={topology}
                onChange={setTopology}
              />
            </FilterBar>
            <Content view={view} gang={gang} setGang={setGang} query={query} />
          </>
        )}
      </Answered>
    </div>
  );
}

function Content({
  view,
  gang,
  setGang,
  query,
}: {
  view: View;
  gang: ReturnType<typeof useGang>[0];
  setGang: ReturnType<typeof useGang>[1];
  query: Record<string, string> | null;
}) {
  const resources = view.resources.filter((resource) => resource !== "pods");
  const [resource, setResource] = useParameter(
    "resource",
    resources.find((each) => each.includes("/")) ?? resources[0] ?? "cpu",
  );
  const [chosen, setChosen] = useParameter("node", "");
  const [hovered, setHovered] = useState("");
  const placement = useGangPlacement(query);
  const places = new Map(
    query && placement.data?.fits ? placement.data.places.map((place) => [place.domain, place.pods]) : [],
  );
  const all = nodesOf(view.root);
  const node = all.find((each) => each.name === (chosen || hovered));
  if (all.length === 0) {
    return (
      <Empty icon="nodes" title="No nodes">
        <p>
          {view.excluded.length > 0
            ? "No node has all levels of this topology: check the labels of the nodes."
            : "The cluster has no nodes yet."}
        </p>
      </Empty>
    );
  }
  return (
    <div className="columns-wide">
      <Panel
        title={view.levels.length > 0 ? `By ${view.levels.map(levelName).join(", ")}` : "All nodes"}
        aside={
          <SegmentedControl
            size="xs"
            value={resource}
            onChange={setResource}
            data={resources}
            aria-label="Resource"
            transitionDuration={0}
          />
        }
      >
        <div className="stack">
          <HeatMapLegend gang={places.size > 0} />
          <HeatMap
            root={view.root}
            resource={resource}
            places={places}
            chosen={chosen}
            onChoose={(name) => setChosen(name === chosen ? "" : name)}
            onHover={setHovered}
          />
        </div>
      </Panel>
      <div className="stack">
        <NodePanel node={node} />
        <GangPanel view={view} gang={gang} onChange={setGang} placement={placement} asked={query !== null} />
        {view.excluded.length > 0 && (
          <Panel title="Left out">
            <p className="muted small">Cordoned, not ready, or without a level of the topology:</p>
            <p>
              {view.excluded.slice(0, 20).map((name) => (
                <code key={name}>{name} </code>
              ))}
              {view.excluded.length > 20 && `and ${view.excluded.length - 20} more`}
            </p>
          </Panel>
        )}
      </div>
    </div>
  );
}
