"""Requests to the process that starts clusters, and its responses: one JSON object on each line."""

import msgspec


class Start(msgspec.Struct, frozen=True, tag=True):
    """Start a cluster in ``directory``, which must not exist."""

    directory: str
    nodes: int
    cpu: str
    memory: str
    pods: int
    speed: float  # of simulated pods
    configuration: str  # the path of a Configuration; empty: all defaults


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the process of a cluster at once; its state is lost."""

    pid: int


class Started(msgspec.Struct, frozen=True, tag=True):
    """The response to ``Start``; with pid 0 also the first line, when the process accepts requests."""

    pid: int


class Stopped(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    problem: str


Request = Start | Stop
Response = Started | Stopped | Failed
