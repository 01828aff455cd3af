"""An upper bound of what a CEL rule costs, from its syntax and the bounds of its schema.

The unit is that of CEL: reading a field or calling a simple function costs 1. kube-apiserver refuses a
CustomResourceDefinition by this bound, so the formulas are those of cel-go's `checker.Cost`, and the bound of
a rule here must not be above the one there.

A size is known of a constant, or by a path from `self` through the schema. cel-go cuts the first name off
every path, also where a path does not begin with a variable, and so does this module: the size of what is
below the result of a call is that of the root. What cannot be bound here, such as a function that is unknown,
has no estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from quorate.local.objects.crd.cel_cost.call_costs import call_cost
from quorate.local.objects.crd.cel_cost.estimates import ONE, Entries, Estimate, Size, capped, total, union_of
from quorate.local.objects.crd.cel_cost.result_types import result_type
from quorate.local.objects.crd.cel_cost.syntax import (
    Comprehension,
    FunctionCall,
    Identifier,
    ListOfItems,
    Literal,
    MapOfEntries,
    Node,
    Select,
)
from quorate.local.objects.crd.cel_cost.types import (
    BOOL,
    DYN,
    ITEMS,
    KEYS,
    STRING,
    VALUES,
    CelType,
    common_type,
    declared_below,
    field_type,
    is_scalar,
    item_type,
)

_READ = 1
_NEW_LIST, _NEW_MAP = 10, 30


def estimated_cost(node: Node, root: CelType, *, optional_old_self: bool) -> int:
    """Return the most that a rule of values of type ``root`` can cost.  Raises NoEstimate."""
    old = CelType("optional_type", item=root) if optional_old_self else root
    return _Estimator(root, {"self": root, "oldSelf": old}).visit(node).cost


class _Estimator:
    def __init__(self, root: CelType, variables: Mapping[str, CelType]) -> None:
        self._root = root
        self._variables = variables
        self._locals: dict[str, Estimate] = {}  # variables of comprehensions around the current node

    def visit(self, node: Node) -> Estimate:
        match node:
            case Literal():
                return Estimate(0, CelType(node.type), size=Size(node.length, node.length))
            case Identifier():
                return self._identifier(node)
            case Select():
                return self._select(node)
            case FunctionCall():
                return self._call(node)
            case ListOfItems():
                return self._list(node)
            case MapOfEntries():
                return self._map(node)
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._comprehension(node)

    def _size(self, kind: CelType, path: tuple[str, ...]) -> Size | None:
        """Return the size of a value at ``path``, else by its type."""
        if path:
            at: CelType | None = self._root
            for name in path[1:]:
                at = at and declared_below(at, name)
            if at is not None:
                return Size(0, at.max_elements)
        return ONE if is_scalar(kind) else None

    def _identifier(self, node: Identifier) -> Estimate:
        local = self._locals.get(node.name)
        if local is not None:
            return replace(local, cost=_READ, size=self._size(local.type, local.path) or local.size)
        kind = self._variables.get(node.name) or CelType("type")  # types are identifiers too
        path = (node.name,)
        return Estimate(_READ, kind, path, self._size(kind, path))

    def _select(self, node: Select) -> Estimate:
        operand = self.visit(node.operand)
        if node.is_presence_test:
            return Estimate(operand.cost, BOOL, size=ONE)
        read = _READ if operand.type.name in ("map", "object") else 0
        kind = field_type(operand.type, node.field)
        path = (*operand.path, node.field)
        return Estimate(total(operand.cost, read), kind, path, self._size(kind, path))

    def _list(self, node: ListOfItems) -> Estimate:
        items = [self.visit(item) for item in node.items]
        entries = Entries(True, ONE, union_of(item.size_or_unknown for item in items))
        return Estimate(
            total(_NEW_LIST, *(item.cost for item in items)),
            CelType("list", item=common_type([item.type for item in items])),
            size=Size(len(items), len(items)),
            entries=entries,
        )

    def _map(self, node: MapOfEntries) -> Estimate:
        pairs = [(self.visit(key), self.visit(value)) for key, value in node.entries]
        entries = Entries(
            False,
            union_of(key.size_or_unknown for key, _ in pairs),
            union_of(value.size_or_unknown for _, value in pairs),
        )
        return Estimate(
            total(_NEW_MAP, *(each.cost for pair in pairs for each in pair)),
            CelType("map", item=common_type([value.type for _, value in pairs])),
            size=Size(len(pairs), len(pairs)),
            entries=entries,
        )

    def _bind(self, node: Comprehension) -> Estimate:
        """Estimate a variable that is evaluated once, of `cel.bind` and `optMap`."""
        value = self.visit(node.initial)
        result = self._with_locals({node.accumulator: value}, node.result)
        return Estimate(
            total(_NEW_LIST, value.cost, result.cost), result.type, size=result.size, entries=result.entries
        )

    def _comprehension(self, node: Comprehension) -> Estimate:
        source, initial = self.visit(node.source), self.visit(node.initial)
        item = self._variable(source)
        accumulated = initial
        inner = {node.accumulator: accumulated, node.variable: item}
        condition = self._with_locals(inner, node.condition)
        step = self._with_locals(inner, node.step)
        # The type of an empty list is known after the first step.
        accumulated = replace(initial, type=common_type([initial.type, step.type]))
        result = self._with_locals({node.accumulator: accumulated}, node.result)
        count = source.size_or_unknown
        loop = capped(count.high * total(condition.cost, step.cost))
        cost = total(source.cost, initial.cost, result.cost, loop)
        match node.initial:
            case Literal():
                return Estimate(cost, result.type, size=initial.size)
            case ListOfItems() | MapOfEntries():
                return Estimate(cost, result.type, size=count, entries=step.entries)
            case _:
                return Estimate(cost, result.type, size=self._size(result.type, ()))

    def _variable(self, source: Estimate) -> Estimate:
        """Return what is known of the variable of a comprehension over ``source``."""
        is_list = source.entries.is_list if source.entries else source.type.name == "list"
        path = (*source.path, ITEMS if is_list else KEYS)
        if is_list:
            kind, size = item_type(source.type), source.entries and source.entries.value
        else:
            kind = STRING if source.type.name == "map" else DYN
            size = source.entries and source.entries.key
        return Estimate(0, kind, path, size)

    def _with_locals(self, variables: Mapping[str, Estimate], node: Node) -> Estimate:
        around = self._locals
        self._locals = {**around, **variables}
        try:
            return self.visit(node)
        finally:
            self._locals = around

    def _call(self, node: FunctionCall) -> Estimate:
        arguments = [self.visit(argument) for argument in node.arguments]
        target = self.visit(node.target) if node.target is not None else None
        if node.function == "dyn":
            inner = arguments[0]
            return replace(inner, cost=total(1, inner.cost), type=DYN, path=())
        kind = result_type(node, target, arguments)
        operands = [*([target] if target is not None else ()), *arguments]
        if node.function == "_?_:_":
            return _conditional(kind, arguments)
        path: tuple[str, ...] = ()
        entries = None
        if node.function == "_[_]":
            path = _index_path(arguments[0])
        if node.function == "_+_" and all(each.entries for each in arguments):
            first, second = arguments
            entries = first.entries.union(second.entries) if first.entries else None
        own, size = call_cost(node, target, arguments, self._item_size)
        if node.function == "_[_]":
            size = arguments[0].entries and arguments[0].entries.value
        return Estimate(
            total(own, *(each.cost for each in operands)), kind, path, size or self._size(kind, path), entries
        )

    def _item_size(self, target: Estimate) -> Size | None:
        """Return the size of the items of a list, which is known by its path only."""
        return self._size(DYN, (*target.path, ITEMS)) if target.path else None


def _is_bind(node: Comprehension) -> bool:
    return (
        isinstance(node.source, ListOfItems)
        and not node.source.items
        and isinstance(node.condition, Literal)
        and node.accumulator not in ("@result", "__result__")
    )


def _conditional(kind: CelType, arguments: Sequence[Estimate]) -> Estimate:
    condition, first, second = arguments
    return Estimate(
        total(condition.cost, max(first.cost, second.cost)),
        kind,
        size=first.size_or_unknown.union(second.size_or_unknown),
        entries=first.entries.union(second.entries) if first.entries else None,
    )


def _index_path(container: Estimate) -> tuple[str, ...]:
    match container.type.name:
        case "list":
            return (*container.path, ITEMS)
        case "map" | "dyn":
            return (*container.path, VALUES)
        case _:
            return ()
