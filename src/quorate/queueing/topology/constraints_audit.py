"""Audit of what pod constraints read: the pods that count, with and without a place, computed from scratch.

The model updates sums and the view of the filters with each pod.  Each slice compares what belongs to one
moment, as those of the places do.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from quorate.api.core.bound_pod import BoundPod
from quorate.api.meta import Key
from quorate.queueing.topology.constraint_view import HeldKey
from quorate.queueing.topology.counted_pods import hash_of, hash_of_held, repelled_namespaces
from quorate.queueing.topology.places import Places
from quorate.queueing.topology.pod_constraints import PodConstraints

SLICE_SIZE: Final = 1_000  # pods or places, at least


class ConstraintMismatch(msgspec.Struct, frozen=True):
    """Another number of pods, or of terms of anti-affinity, in the model than what pods and places give."""

    quantity: str
    of: str  # a host, a pod or a namespace
    in_model: int
    computed: int


def audit_constraints(
    constraints: PodConstraints, counted: Callable[[], Mapping[Key, Places]]
) -> Iterator[tuple[ConstraintMismatch, ...]]:
    """Yield the differences of one slice after the other.

    ``counted`` are the places that count at the moment of the call.
    """
    keys = list(constraints.pods)
    for start in range(0, len(keys), SLICE_SIZE):
        yield tuple(_pod_differences(constraints, keys[start : start + SLICE_SIZE]))
    yield from _held_slices(constraints, counted)
    yield from _sum_slices(constraints)


def _pod_differences(constraints: PodConstraints, keys: list[Key]) -> Iterator[ConstraintMismatch]:
    """Compare the pods without a place, one by one, with those of the view."""
    view = constraints.view
    if view is None:
        return
    for key in keys:
        if key in view.unread.foreign:
            continue
        node = constraints.node_of(key)
        seen = view.cluster.occupant(key)
        if node != (None if seen is None else seen.node):
            yield ConstraintMismatch(
                "pods in the view", str(key), int(seen is not None), int(node is not None)
            )


def _held_slices(
    constraints: PodConstraints, counted: Callable[[], Mapping[Key, Places]]
) -> Iterator[tuple[ConstraintMismatch, ...]]:
    """Compare the pods with places at the last moment, by then most of them have been added up."""
    sums: Counter[HeldKey] = Counter()
    seen: dict[Key, Places] = {}
    for at, (key, places) in enumerate(counted().items()):
        seen[key] = places
        _add(sums, places, 1)
        if at % SLICE_SIZE == SLICE_SIZE - 1:
            yield ()
    current = counted()
    for key in seen.keys() | current.keys():
        before, now = seen.get(key), current.get(key)
        if before is not now:
            if before is not None:
                _add(sums, before, -1)
            if now is not None:
                _add(sums, now, 1)
    held, view = constraints.held, constraints.view
    in_view = {} if view is None else view.held
    unread = held if view is None else view.unread.held
    found = [("held pods", each, held.get(each, 0), sums[each]) for each in held.keys() | sums.keys()]
    found += [
        ("held pods in the view", each, in_view.get(each, 0), sums[each])
        for each in in_view.keys() | sums.keys()
        if each not in unread
    ]
    yield tuple(
        sorted(
            (
                ConstraintMismatch(quantity, host, have, want)
                for quantity, (host, _), have, want in found
                if have != want
            ),
            key=lambda each: (each.quantity, each.of),
        )
    )


def _add(sums: Counter[HeldKey], places: Places, times: int) -> None:
    for place in places.all:
        if place.on_host and place.template is not None:
            sums[HeldKey(place.values[-1], place.template)] += place.pods * times


def _sum_slices(constraints: PodConstraints) -> Iterator[tuple[ConstraintMismatch, ...]]:
    """Compare the sums over all pods at the last moment."""
    seen: dict[Key, tuple[BoundPod, str | None]] = {}
    total = _Totals()
    for key in list(constraints.pods):
        pod = constraints.pods.get(key)
        if pod is not None:
            seen[key] = pod, constraints.node_of(key)
            total.add(*seen[key], 1)
        if len(seen) % SLICE_SIZE == 0:
            yield ()
    for key in seen.keys() | constraints.pods.keys():
        now = constraints.pods.get(key)
        current = None if now is None else (now, constraints.node_of(key))
        before = seen.get(key)
        if before != current:
            if before is not None:
                total.add(*before, -1)
            if current is not None:
                total.add(*current, 1)
    for (host, template), pods in constraints.held.items():
        total.hash += hash_of_held(host, template) * pods
        if template.has_constraints:
            total.constrained += hash_of_held(host, template) * pods
        if template.repels and pods > 0:
            terms = set(repelled_namespaces(template.namespace, template.decode().spec))
            total.repelled.update(terms)
    yield tuple(total.differences(constraints))


class _Totals:
    """What the model has of all pods together."""

    def __init__(self) -> None:
        self.hash = self.constrained = 0
        self.repelled: Counter[str] = Counter()

    def add(self, pod: BoundPod, node: str | None, times: int) -> None:
        namespace = pod.metadata.namespace
        for each in repelled_namespaces(namespace, pod.constraints):
            self.repelled[each] += times
        if node is not None:
            self.hash += hash_of(pod, node) * times
            if pod.constraints is not None:
                self.constrained += hash_of(pod, node) * times

    def differences(self, constraints: PodConstraints) -> Iterator[ConstraintMismatch]:
        all_pods, constrained = constraints.sums
        if all_pods != self.hash:
            yield ConstraintMismatch("sum over pods", "", all_pods, self.hash)
        if constrained != self.constrained:
            yield ConstraintMismatch("sum over pods with constraints", "", constrained, self.constrained)
        for namespace in sorted(self.repelled.keys() | constraints.repelled.keys()):
            have, want = constraints.repelled.get(namespace, 0), self.repelled[namespace]
            if have != want:  # terms that were counted and are gone leave a 0
                yield ConstraintMismatch("terms of anti-affinity", namespace, have, want)
