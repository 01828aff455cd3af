import { Empty } from "./PageState";

export function TooShort() {
  return (
    <Empty icon="clock" title="No history yet">
      <p>Samples are taken while the dashboard runs. The first lines appear after some minutes.</p>
    </Empty>
  );
}
