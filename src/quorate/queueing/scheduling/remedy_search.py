"""The search for changes that let a pending workload start; each result is one that the core has evaluated.

For each flavor the refusals of an evaluation become changes, and the workload is evaluated again as if they
were made, until it fits.  The rules that decide about it therefore also decide whether a change is enough.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from quorate.api.core import NodeSelectorTerm, Taint
from quorate.api.explanation import Change, Nodes, ObjectName, Remedy
from quorate.api.kueue import ResourceFlavor, Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import ObjectMeta
from quorate.placement.supposed_nodes import MAX_PROVIDED_NODES, NAMINGS, nodes_text, supposed_nodes
from quorate.placement.topology.request import TopologyRequest
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.limits import MAX_REMEDIES, MAX_SEARCHED_FLAVORS, STEP
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.trees import labels_of
from quorate.queueing.pending.changed_pods import with_priority, with_request, with_selector, with_toleration
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.ordering import effective_priority, queue_order
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.preemption.candidates import Target
from quorate.queueing.scheduling.flavor_assigner import NominatedFlavors
from quorate.queueing.scheduling.nomination import Nomination, Supposition, evaluate_supposing
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, as_quantity

_MAX_EVALUATIONS: Final = 8  # of one flavor, each with the changes that the one before asks for


class _Attempt(msgspec.Struct, frozen=True):
    """The changes supposed so far: of the ``workload``, and a ``supposition`` about other objects."""

    workload: Workload
    supposition: Supposition = Supposition()
    changes: tuple[Change, ...] = ()


class RemedySearch:
    """The search for one pending workload, in the cluster queue of its local queue, which may be inactive."""

    def __init__(self, state: State, queue: ClusterQueueState, entry: Entry) -> None:
        shapes, workload = state.ledger.shapes, entry.workload
        if shapes.is_out_of_date(entry.requests_version, entry.key.namespace):
            entry = Entry(workload, shapes.shape_of(workload), entry.order)
        self._state, self._queue, self._entry = state, queue, entry

    def find(self) -> Generator[None, None, tuple[Remedy, ...]]:
        """Return the remedies, none twice; one without changes if the workload fits as it is.

        Yields between evaluations.
        """
        start = _Attempt(self._entry.workload)
        if (fitting := self._remedy(start, preempts=True)) is not None:
            return (fitting,)
        remedies: list[Remedy | None] = []
        for counts in self._counts():
            for flavors in self._flavors():
                yield
                remedies.append((yield from self._complete(start, counts, flavors)))
        for flavors in self._flavors():
            yield
            remedies.append(self._with_lower_requests(start, flavors))
        remedies.append((yield from self._with_priority(start)))
        return tuple(islice(_needed(remedies), MAX_REMEDIES))

    # Choices.

    def _counts(self) -> list[list[int]]:
        """Return the counts of the pod sets to try: all pods, and with partial admission the minimum."""
        pod_sets = self._entry.shape.pod_sets
        full, fewest = [pod_set.count for pod_set in pod_sets], [pod_set.min_count for pod_set in pod_sets]
        is_partial = self._state.configuration.gates.partial_admission and fewest != full
        return [full, fewest] if is_partial else [full]

    def _flavors(self) -> Iterator[NominatedFlavors]:
        """Yield a flavor for all pod sets, each flavor of the longest resource group in turn."""
        groups = list({id(group): group for group in self._queue.groups.values()}.values())
        if not groups:
            yield {}
            return
        most = max(groups, key=lambda group: len(group.flavors))
        for flavor in most.flavors[:MAX_SEARCHED_FLAVORS]:
            chosen = dict.fromkeys(most.covered, flavor)
            yield {pod_set.name: chosen for pod_set in self._entry.shape.pod_sets}

    # Evaluations.

    def _evaluate(
        self, attempt: _Attempt, counts: Sequence[int] | None, flavors: NominatedFlavors | None
    ) -> tuple[Assignment, Sequence[Target]]:
        """Return the assignment, and what the workload would preempt; the fewest pods with supposed nodes."""
        entry = self._entry_of(attempt)
        answers: list[tuple[Assignment, Sequence[Target]]] = []
        for naming in NAMINGS:  # names decide which of equal nodes are used first
            nodes = tuple(
                node
                for change in attempt.changes
                if change.nodes is not None
                for node in supposed_nodes(change.nodes, change.pod_set, naming)
            )
            supposition = replace(attempt.supposition, nodes=nodes)
            answer = evaluate_supposing(self._state, self._queue, entry, supposition, counts, flavors)
            if not nodes or answer[0].mode is not AssignmentMode.FIT:
                return answer
            answers.append(answer)
        return min(answers, key=lambda answer: answer[0].pods)

    def _entry_of(self, attempt: _Attempt) -> Entry:
        if attempt.workload is self._entry.workload:
            return self._entry
        shape = self._state.ledger.shapes.shape_of(attempt.workload)
        return Entry(attempt.workload, shape, queue_order(attempt.workload, self._state.configuration))

    def _remedy(self, attempt: _Attempt, *, preempts: bool = False) -> Remedy | None:
        """Return the changes of ``attempt`` if the workload fits after them, or ``preempts`` others and does.

        Preemption is no remedy for a shortage of quota: the victims may be admitted again first.
        """
        assignment, targets = self._evaluate(attempt, None, None)
        starts = assignment.mode is AssignmentMode.FIT or (preempts and targets)
        if starts and self._is_reserved(attempt, assignment, targets):
            return None
        return Remedy(all_of=attempt.changes, pods=assignment.pods) if starts else None

    def _is_reserved(self, attempt: _Attempt, assignment: Assignment, targets: Sequence[Target]) -> bool:
        """Return True if a window needs what the workload would use; supposed quota does not count."""
        ledger, entry, queue = self._state.ledger, self._entry_of(attempt), self._queue
        if not ledger.windows:
            return False
        nomination = Nomination(
            entry, queue, queue.groups, entry.workload, entry.requests_version,
            ledger.version(queue.node), assignment, tuple(targets), (),
        )  # fmt: skip
        return ReservedWindows(ledger).refusal(nomination, assignment, ledger.now) is not None

    def _complete(
        self, attempt: _Attempt, counts: Sequence[int], flavors: NominatedFlavors
    ) -> Generator[None, None, Remedy | None]:
        """Return the changes that let ``counts`` pods fit with ``flavors``; None if none are known."""
        for _ in range(_MAX_EVALUATIONS):
            assignment, _ = self._evaluate(attempt, counts, flavors)
            if assignment.mode is AssignmentMode.FIT:
                break
            if not assignment.reasons:
                return None
            for reason in _of_first_pod_set(assignment.reasons):
                if isinstance(reason, r.NodesLackRoom | r.PlacementRefused):
                    extended = yield from self._with_nodes(attempt, reason, counts, flavors)
                else:
                    extended = self._extend(attempt, reason)
                if extended is None:
                    return None
                attempt = extended
        attempt = replace(attempt, changes=(*attempt.changes, *self._quota_changes(attempt)))
        if any(change.nodes is not None for change in attempt.changes):
            yield
        return self._remedy(attempt)

    def _extend(self, attempt: _Attempt, reason: r.PodSetReason) -> _Attempt | None:
        """Return the attempt with the change that removes ``reason``; None if no change is known."""
        supposition = attempt.supposition
        match reason:
            case r.QuotaShort(_, flavor, resource) | r.QuotaExceeded(_, flavor, resource):
                pair = FlavorResource(flavor, resource)
                supposed = supposition.more_quota.get(pair, 0)
                with tree.with_more_quota(self._queue.node, supposition.more_quota):
                    missing = reason.needed - tree.available(self._queue.node, pair)
                more = {**supposition.more_quota, pair: supposed + missing}
                return replace(attempt, supposition=replace(supposition, more_quota=more))
            case r.ResourceUncovered(_, resource) if self._queue.groups:
                return self._covering(attempt, resource)
            case r.FlavorMissing(_, flavor) if flavor not in supposition.flavors:
                name = ObjectName(kind="ResourceFlavor", name=flavor)
                change = Change(
                    action="CreateFlavor", text=f"create the ResourceFlavor {flavor}", object=name
                )
                created = ResourceFlavor(metadata=ObjectMeta(name=flavor))
                changed = replace(supposition, flavors={**supposition.flavors, flavor: created})
                return replace(attempt, supposition=changed, changes=(*attempt.changes, change))
            case r.TaintUntolerated(pod_set, flavor, key, value, effect):
                taint = f"{key}={value}:{effect}"
                change = Change(
                    action="AddToleration",
                    text=f"add a toleration of {taint} to pod set {pod_set}",
                    pod_set=pod_set,
                    value=taint,
                )
                tolerating = with_toleration(
                    attempt.workload, pod_set, Taint(key=key, value=value, effect=effect)
                )
                return _of_workload(attempt, tolerating, change)
            case r.AffinityMismatched(pod_set, flavor) if flavor in self._state.flavors:
                return self._selecting(attempt, pod_set, flavor)
            case _:
                return None

    def _with_nodes(
        self,
        attempt: _Attempt,
        reason: r.NodesLackRoom | r.PlacementRefused,
        counts: Sequence[int],
        flavors: NominatedFlavors,
    ) -> Generator[None, None, _Attempt | None]:
        """Return the attempt with nodes for the pods that have none; None if no known ones are enough."""
        provided = [change.pod_set for change in attempt.changes if change.action == "ProvideNodes"]
        if reason.pod_set in provided or self._state.ledger.windows.keep_nodes:  # maybe more nodes as well
            return None
        (shape,) = [one for one in self._entry.shape.pod_sets if one.name == reason.pod_set]
        names = sorted({*flavors.get(shape.name, {}).values()})  # none in a queue without quota
        shares_nodes = len(self._entry.shape.pod_sets) > 1
        for nodes in nodes_for(self._state.ledger.topology, shape, names, reason, shares_nodes=shares_nodes):
            change = Change(action="ProvideNodes", text=nodes_text(nodes), pod_set=shape.name, nodes=nodes)
            extended = replace(attempt, changes=(*attempt.changes, change))
            yield
            assignment, _ = self._evaluate(extended, counts, flavors)
            refusals = [
                one for one in assignment.reasons if isinstance(one, r.NodesLackRoom | r.PlacementRefused)
            ]
            if all(one.pod_set != shape.name for one in refusals):
                return extended
        return None

    def _covering(self, attempt: _Attempt, resource: str) -> _Attempt:
        """Return the attempt with ``resource`` in the first resource group, for all flavors of it."""
        supposition, pod_sets = attempt.supposition, self._entry.shape.pod_sets
        amount = sum(pod_set.per_pod.get(resource, 0) * pod_set.count for pod_set in pod_sets)
        quantity = str(as_quantity(resource, amount))
        group = next(iter(self._queue.groups.values()))
        change = Change(
            action="CoverResource",
            text=(
                f"add {resource} to a resource group of cluster queue {self._queue.name}, with a "
                f"nominalQuota of {quantity}{self._without_nodes(resource)}"
            ),
            object=ObjectName(kind="ClusterQueue", name=self._queue.name),
            resource=resource,
            amount=quantity,
        )
        more = {FlavorResource(flavor, resource): amount for flavor in group.flavors}
        supposition = replace(
            supposition,
            covered=supposition.covered | {resource},
            more_quota={**supposition.more_quota, **more},
        )
        return replace(attempt, supposition=supposition, changes=(*attempt.changes, change))

    def _selecting(self, attempt: _Attempt, pod_set: str, flavor: str) -> _Attempt | None:
        labels = self._state.flavors[flavor].spec.node_labels
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        change = Change(
            action="SelectFlavor",
            text=f"let the node selector of pod set {pod_set} be that of flavor {flavor} ({pairs})",
            pod_set=pod_set,
            flavor=flavor,
        )
        if not labels or change in attempt.changes:  # no other selector would match
            return None
        return _of_workload(attempt, with_selector(attempt.workload, pod_set, labels), change)

    def _quota_changes(self, attempt: _Attempt) -> Iterator[Change]:
        """Yield the supposed quota as changes: raise what exceeds the maximum, free the rest."""
        covered, node = attempt.supposition.covered, self._queue.node
        for pair, amount in attempt.supposition.more_quota.items():
            if pair.resource in covered:
                continue
            free, most = tree.available(node, pair), tree.potential_available(node, pair)
            raised = min(amount, max(0, free + amount - most))
            if raised:
                yield self._quota_change("RaiseQuota", pair, raised)
            if amount > raised:
                yield self._quota_change("FreeQuota", pair, amount - raised)

    def _quota_change(
        self, action: Literal["FreeQuota", "RaiseQuota"], pair: FlavorResource, amount: int
    ) -> Change:
        quantity = str(as_quantity(pair.resource, amount))
        what = f"{pair.resource} of flavor {pair.flavor}"
        text = f"{quantity} more {what} must become free"
        if action == "RaiseQuota":
            text = f"raise nominalQuota of {what} in cluster queue {self._queue.name} by {quantity}"
            text += self._without_nodes(pair.resource)
        return Change(
            action=action,
            text=text,
            object=ObjectName(kind="ClusterQueue", name=self._queue.name),
            flavor=pair.flavor,
            resource=pair.resource,
            amount=quantity,
        )

    def _without_nodes(self, resource: str) -> str:
        """Return that no node has ``resource`` of the pods; empty if one has it, or nodes are not read."""
        topology = self._state.ledger.topology
        is_on_nodes = any(resource in pod_set.on_node for pod_set in self._entry.shape.pod_sets)
        if not (is_on_nodes and topology.has_nodes and topology.nodes):
            return ""
        has_any = any(resource in node.status.allocatable for node in topology.nodes.values())
        return "" if has_any else f"; no node has {resource}"

    def _with_lower_requests(self, attempt: _Attempt, flavors: NominatedFlavors) -> Remedy | None:
        """Return requests that fit free quota and nodes; None unless one pod set exceeds them."""
        pod_sets = {pod_set.name: pod_set for pod_set in self._entry.shape.pod_sets}
        assignment, _ = self._evaluate(attempt, [other.count for other in pod_sets.values()], flavors)
        if len({reason.pod_set for reason in assignment.reasons}) != 1:
            return None
        for reason in assignment.reasons:
            if not isinstance(reason, r.QuotaShort | r.QuotaExceeded | r.ResourceUncovered | r.NodesLackRoom):
                return None
            pod_set = pod_sets[reason.pod_set]
            per_pod = 0
            if isinstance(reason, r.NodesLackRoom):
                per_pod = reason.best
            elif not isinstance(reason, r.ResourceUncovered):
                earlier = reason.needed - pod_set.per_pod.get(reason.resource, 0) * pod_set.count
                per_pod = (reason.available - earlier) // max(1, pod_set.count)
            if per_pod < 0 or (per_pod == 0 and not isinstance(reason, r.ResourceUncovered)):
                return None
            quantity = str(as_quantity(reason.resource, per_pod))
            lowered = with_request(attempt.workload, pod_set.name, reason.resource, quantity)
            if lowered is None:
                return None
            text = f"let each pod of pod set {pod_set.name} request at most {quantity} {reason.resource}"
            if not per_pod:
                text = f"remove the request for {reason.resource} from pod set {pod_set.name}"
            change = Change(
                action="LowerRequests",
                text=text,
                pod_set=pod_set.name,
                resource=reason.resource,
                amount=quantity,
            )
            attempt = _of_workload(attempt, lowered, change)
        return self._remedy(attempt)

    def _with_priority(self, attempt: _Attempt) -> Generator[None, None, Remedy | None]:
        """Return the lowest priority with which the workload preempts enough; None if no priority does."""
        preemption = self._queue.spec.preemption
        within = preemption.within_cluster_queue != "Never"
        if not within and preemption.reclaim_within_cohort != "LowerPriority":
            return None
        gates = self._state.configuration.gates
        own, higher = effective_priority(self._entry.workload, gates), set[int]()
        for queue in list(self._state.ledger.queues_below(self._queue.node.root)):
            reservations = list(queue.reservations.values())
            for start in range(0, len(reservations), STEP):
                yield
                higher |= {
                    reservation.priority + 1
                    for reservation in reservations[start : start + STEP]
                    if reservation.priority >= own
                }
        for priority in sorted(higher)[:MAX_SEARCHED_FLAVORS]:
            yield
            written = priority - own + (self._entry.workload.spec.priority or 0)
            change = Change(
                action="RaisePriority", text=f"raise its priority to {written}", amount=str(written)
            )
            raised = _of_workload(attempt, with_priority(self._entry.workload, written), change)
            remedy = self._remedy(raised, preempts=True)
            if remedy is not None:
                return remedy
        return None


def _of_workload(attempt: _Attempt, workload: Workload, change: Change) -> _Attempt:
    return replace(attempt, workload=workload, changes=(*attempt.changes, change))


def _of_first_pod_set(reasons: Sequence[r.PodSetReason]) -> list[r.PodSetReason]:
    """Return the reasons of the first pod set with any; reasons of later pod sets depend on its flavor."""
    return [reason for reason in reasons if reason.pod_set == reasons[0].pod_set]


def _needed(candidates: Iterable[Remedy | None]) -> Iterator[Remedy]:
    """Yield each remedy once; leave out a remedy if a part of its changes starts as many pods."""
    remedies: list[Remedy] = []
    for remedy in filter(None, candidates):
        if all(remedy.all_of != other.all_of for other in remedies):
            remedies.append(remedy)
    for remedy in remedies:
        if not any(_is_part(other.all_of, remedy.all_of) and other.pods >= remedy.pods for other in remedies):
            yield remedy


def _is_part(changes: Sequence[Change], of: Sequence[Change]) -> bool:
    return len(changes) < len(of) and all(change in of for change in changes)


def nodes_for(
    model: TopologyModel,
    shape: PodSetShape,
    flavors: Sequence[str],
    refusal: r.NodesLackRoom | r.PlacementRefused,
    *,
    shares_nodes: bool,
) -> Iterator[Nodes]:
    """Yield nodes that may be enough for the pods of a pod set that have none, the smallest first.

    ``shares_nodes``: pods of other pod sets may use them; then all are in one domain of each level.
    """
    topology, levels = shape.topology, _levels(model, flavors)
    pods = refusal.requested - refusal.fitting
    if isinstance(refusal, r.PlacementRefused) and (topology.required or topology.layers):
        pods = refusal.requested  # in one domain that no other pods use
    if pods <= 0 or not shape.on_node:
        return
    labels = {
        **dict(labels_of(model.flavors[name] for name in flavors if name in model.flavors)),
        **_labels_of_affinity(shape.affinity or ()),
        **shape.node_selector,
    }
    levels = [level for level in levels if level != HOSTNAME and level not in labels]
    same = tuple(levels) if shares_nodes else _shared_levels(topology, levels)
    fewest = -(-pods // MAX_PROVIDED_NODES)
    slices = [layer.size for layer in topology.layers]
    for on_each in dict.fromkeys((fewest, *(size for size in sorted(slices) if size >= fewest), pods)):
        amounts = {resource: amount * on_each for resource, amount in shape.on_node.items() if amount}
        free = {resource: str(as_quantity(resource, amount)) for resource, amount in amounts.items()}
        yield Nodes(count=-(-pods // on_each), labels=labels, free=free, levels=tuple(levels), same=same)


def _levels(model: TopologyModel, flavors: Sequence[str]) -> Sequence[str]:
    """Return the levels of the topology of the flavors; empty without one."""
    return next((levels for name in flavors if (levels := model.levels(name)) is not None), ())


def _shared_levels(request: TopologyRequest, levels: Sequence[str]) -> tuple[str, ...]:
    """Return the levels down to the one of which the request needs one domain; none if it needs no one."""
    if request.layers:
        return tuple(levels)
    return tuple(levels[: levels.index(request.required) + 1]) if request.required in levels else ()


def _labels_of_affinity(terms: Sequence[NodeSelectorTerm]) -> Mapping[str, str]:
    """Return labels of a node that matches the first term, where it asks for labels."""
    expressions = terms[0].match_expressions if terms else ()
    return {
        expression.key: expression.values[0] if expression.values else ""
        for expression in expressions
        if expression.operator in ("In", "Exists")
    }
