"""Why no node takes a pod, counted over all of them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.scoring import quotient
from quorate.placement.shapes import Shape
from quorate.placement.stance import Moment, Stance
from quorate.placement.vectors import Vector
from quorate.placement.verdicts import Barred, NoRoom, Short

# Fine enough to tell which node is nearest.
_PARTS: Final = 1_000_000


def refusal(cluster: Cluster, shape: Shape, stance: Stance, indexes: Vector) -> NoRoom:
    """What stands between pods of ``shape`` and the nodes at ``indexes``, which are in the order of names."""
    known = np.zeros(cluster.size, np.bool_)
    known[indexes] = True
    passing = stance.passing(Moment.LATER)
    objections = stance.objections(Moment.LATER, known & ~passing)
    open_ = indexes[passing[indexes]]
    sound = open_[(cluster.used[:, open_] <= cluster.allocatable[:, open_]).all(axis=0)]
    asked = {resource: amount for resource, amount in sorted(shape.amounts.items()) if amount}
    lacks = {resource: _lack(cluster, resource, amount, sound) for resource, amount in asked.items()}
    nearest = _nearest(asked, lacks)
    short = [
        Short(
            resource=resource,
            nodes=int(np.count_nonzero(lack)),
            need=asked[resource],
            by=int(lack[nearest]),
            at_most=int(cluster.allocatable[cluster.row(resource), open_].max()),
        )
        for resource, lack in lacks.items()
        if lack.any()
    ]
    thinkable = indexes[~stance.lasting[indexes]]
    return NoRoom(
        nodes=len(indexes),
        barred=tuple(Barred(objection.reason, count) for objection, count in objections),
        short=tuple(sorted(short, key=lambda one: (-one.nodes, one.resource))),
        overdrawn=len(open_) - len(sound),
        nearest=cluster.name(int(sound[nearest])) if len(sound) else "",
        possible=_possible(cluster, asked, thinkable),
    )


def _lack(cluster: Cluster, resource: str, amount: int, at: Vector) -> Vector:
    row = cluster.row(resource)
    idle = cluster.allocatable[row, at] - cluster.used[row, at]
    future = idle + cluster.releasing[row, at] - cluster.pipelined[row, at]
    lack: Vector = np.clip(amount - future, 0, amount)
    return lack


def _nearest(asked: Mapping[str, int], lacks: Mapping[str, Vector]) -> int:
    """Which of the nodes lacks least, by the part of what is asked for that it lacks most of."""
    parts = [quotient(lack, np.full_like(lack, asked[name]), _PARTS) for name, lack in lacks.items()]
    worst = np.max(parts, axis=0) if parts else np.zeros(0, np.int64)
    return int(worst.argmin()) if len(worst) else 0


def _possible(cluster: Cluster, asked: Mapping[str, int], at: Vector) -> int:
    enough = np.ones(len(at), np.bool_)
    for resource, amount in asked.items():
        enough &= cluster.allocatable[cluster.row(resource), at] >= amount
    return int(np.count_nonzero(enough))
