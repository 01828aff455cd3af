"""The values of the page's form for jobs; see ``schema``."""

from typing import Literal

from quorate.dashboard.schema import Answer


class SubmissionQueue(Answer):
    """A local queue in a namespace in which the caller may create jobs."""

    namespace: str
    name: str


class SubmissionRequest(Answer):
    """A job as for ``quorate submit``; amounts are those of each pod."""

    namespace: str
    local_queue: str
    command: str  # words as for a shell
    dry_run: bool
    name: str = ""  # empty: one is made up
    image: str = ""
    pods: int = 1
    min_pods: int | None = None
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    time_limit: str = ""  # such as 2h
    gang: bool = False


class SubmissionAnswer(Answer):
    """The job; of a dry run also whether and when it would start, in sentences."""

    name: str
    manifests: str  # YAML
    starts: Literal["Now", "Later", "Never", "Unknown"]
    message: str
    enough: tuple[str, ...]
    estimate: str
    planned: str  # its planned start, in a sentence; empty without one
