"""What the requests of a pod count as in quota, by ``resources`` of the Configuration."""

from collections.abc import Mapping
from fractions import Fraction

from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.quantity import NANOS


def counted_amounts(requests: Mapping[str, int], options: ResourceOptions) -> dict[str, int]:
    """Return the amounts by resource in nano-units, with the outputs of transformations.

    An excluded resource does not count itself, but its transformation does.
    """
    excluded = options.exclude_resource_prefixes
    rules = {rule.input: rule for rule in options.transformations}
    counted: dict[str, int] = {}
    generated: dict[str, Fraction] = {}
    for name, amount in requests.items():
        rule = rules.get(name)
        if not name.startswith(excluded) and (rule is None or rule.strategy == "Retain"):
            counted[name] = counted.get(name, 0) + amount
        if rule is None:
            continue
        times = Fraction(amount, NANOS)
        if rule.multiply_by:
            times *= Fraction(requests.get(rule.multiply_by, NANOS), NANOS)
        for output, per_unit in rule.outputs.items():
            generated[output] = generated.get(output, Fraction(0)) + times * per_unit.nanos
    for name, exact in generated.items():
        if exact > 0:
            counted[name] = counted.get(name, 0) + int(exact)
    return counted
