"""When the results of a probe change the health of a container."""

from dataclasses import dataclass

from quorate.local.runtime.pod_types import Probe


@dataclass(frozen=True, slots=True)
class ProbeHistory:
    """The last results of one probe of one container."""

    succeeded: bool  # what the probe says; it changes only after the threshold of equal results
    last: bool | None = None
    count: int = 0  # of equal results in a row

    def after(self, probe: Probe, succeeded: bool) -> "ProbeHistory":
        """Return the history after one more result."""
        count = self.count + 1 if self.last is succeeded else 1
        threshold = probe.success_threshold if succeeded else probe.failure_threshold
        verdict = succeeded if count >= threshold else self.succeeded
        return ProbeHistory(verdict, succeeded, count)
