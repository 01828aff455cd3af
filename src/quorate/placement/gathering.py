"""Where pods begin that all have to be in one domain: in one that has room for all of them.

A pod that others require near them, be they its like or not, may be anywhere as long as it is the first, and
where it goes the others have to follow.  Placed alone it would go to the best node there is, in whatever
domain.
"""

from collections.abc import Mapping

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.rankings import Rankings
from quorate.placement.shapes import Shape
from quorate.placement.stance import Moment
from quorate.placement.vectors import Mask, Matrix, Vector

Company = Mapping[Shape, int]  # how many pods of which shapes have to be in one domain


def gathering_place(rankings: Rankings, shape: Shape, company: Company) -> str:
    """The best node for a pod of ``shape`` in a domain with room for ``company``, now or else later.

    "" if nobody of these has to follow it, and if no domain has that much room.  Room is all that is looked
    at: whether the others are kept away by more than that shows when they are placed.
    """
    domains = rankings.founded(shape, company)
    if not domains:
        return ""
    cluster = rankings.cluster
    for each in company:
        cluster.request(each)  # then the matrices have a row for whatever it asks for
    for moment in Moment:
        room = _room(cluster, moment)
        fitting = np.ones(cluster.size, np.bool_)
        for codes in domains:
            fitting &= _has_room(cluster, room, codes, company)
        name = rankings.best_among(shape, fitting)
        if name:
            return name
    return ""


def _room(cluster: Cluster, moment: Moment) -> Matrix:
    room: Matrix = cluster.allocatable - cluster.used
    if moment is Moment.LATER:
        room = room + cluster.releasing - cluster.pipelined
    return np.maximum(room, 0) * cluster.ready


def _has_room(cluster: Cluster, room: Matrix, codes: Vector, company: Company) -> Mask:
    """The nodes in whose domain there is room for each shape's pods, and for the amounts of all together."""
    domains = int(codes.max(initial=-1)) + 1
    inside = codes >= 0
    enough = np.ones(domains + 1, np.bool_)
    enough[domains] = False  # where nodes outside of all domains look
    wanted: dict[int, int] = {}
    for shape, count in company.items():
        places = np.full(cluster.size, count, np.int64)
        for resource, amount in shape.amounts.items():
            if amount:
                row = cluster.row(resource)
                places = np.minimum(places, room[row] // amount)
                wanted[row] = wanted.get(row, 0) + amount * count
        enough[:domains] &= _sums(codes[inside], places[inside], domains) >= count
    for row, amount in wanted.items():
        enough[:domains] &= _sums(codes[inside], room[row][inside], domains) >= amount
    return enough[codes]


def _sums(codes: Vector, amounts: Vector, domains: int) -> Vector:
    """The sum of each domain."""
    sums = np.zeros(domains, np.int64)
    np.add.at(sums, codes, amounts)
    return sums
