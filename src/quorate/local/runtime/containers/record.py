"""What the kubelet keeps of a container on disk, so that the next kubelet goes on from it."""

from quorate.api.meta import Struct


class Termination(Struct, omit_defaults=False, kw_only=False):
    """The end of one attempt; moments are seconds since the epoch."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: float = 0.0
    finished_at: float = 0.0


class ContainerRecord(Struct, omit_defaults=False):
    """The latest attempt of a container, written before its process starts and when it ends."""

    attempt: int = 0  # 0 for the first start; the restart count
    started_at: float | None = None  # None: no process has been seen
    ended: Termination | None = None
    previous: Termination | None = None  # of the attempt before
    devices: tuple[int, ...] = ()  # indices of NVIDIA devices
    backoff_s: float = 0.0  # the delay between the end of this attempt and the next start

    @property
    def is_running(self) -> bool:
        return self.started_at is not None and self.ended is None
