import type { DomainUse } from "../../api/types";
import { Panel } from "../../components/Panel";
import { formatAmount } from "../../format/quantity";
import css from "./NodePanel.module.css";

/** What one node has, and what of it is used, by resource. */
export function NodePanel({ node }: { node: DomainUse | undefined }) {
  if (!node)
    return (
      <Panel title="Node">
        <p className="muted">Point at a cell to see its node; choose one to keep it here.</p>
      </Panel>
    );
  return (
    <Panel
      title={
        <>
          <span className="muted">Node</span> <span className={css.name}>{node.name}</span>
        </>
      }
      aside={node.ready ? null : <strong className={css.lost}>not ready</strong>}
    >
      <table className={`table ${css.table}`}>
        <thead>
          <tr>
            <th scope="col">Resource</th>
            <th scope="col" className="end">
              Used
            </th>
            <th scope="col" className="end">
              Others
            </th>
            <th scope="col" className="end">
              Free
            </th>
            <th scope="col" className="end">
              Of
            </th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(node.capacity).map(([resource, capacity]) => (
            <tr key={resource}>
              <td>
                <code>{resource}</code>
              </td>
              {[
                node.used[resource]?.value ?? 0,
                node.others[resource]?.value ?? 0,
                node.free[resource]?.value ?? 0,
                capacity.value,
              ].map((value, at) => (
                <td key={at} className="end number nowrap">
                  {formatAmount(resource, value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
