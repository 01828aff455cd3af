"""The record of a container on disk, from which the next kubelet takes the container over."""

from quorate.api.meta import Struct


class Termination(Struct, omit_defaults=False, kw_only=False):
    """How one attempt of a container ended: its exit code, and when it started and ended.

    Times are in seconds since the epoch.
    """

    exit_code: int
    reason: str
    message: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0


class ContainerRecord(Struct, omit_defaults=False):
    """The latest attempt of a container, written before its process starts and when it ends."""

    attempt: int = 0  # 0 for the first start; the restart count
    started_at: float | None = None  # None: the process has not been started
    ended: Termination | None = None
    previous: Termination | None = None  # the end of the attempt before
    devices: tuple[int, ...] = ()  # indices of NVIDIA devices
    backoff_s: float = 0.0  # the delay between the end of this attempt and the next start

    @property
    def is_running(self) -> bool:
        return self.started_at is not None and self.ended is None
