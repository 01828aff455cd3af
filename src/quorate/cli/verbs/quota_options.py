"""Parse quotas, labels and taints of the command line."""

from collections.abc import Iterable, Sequence

from quorate.api.codec import Json
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.api.syntax import is_label_value, is_qualified_name
from quorate.inspect.errors import UsageError

Amounts = dict[str, dict[str, Quantity]]  # by flavor and resource, in the order given


def resource_groups(nominal: Sequence[str], borrowing: Sequence[str], lending: Sequence[str]) -> list[Json]:
    """Return ``resourceGroups`` from ``FLAVOR:cpu=8;memory=36Gi``.

    Flavors with the same resources share a group, as alternatives in the order given.
    """
    quotas = amounts("--nominal-quota", nominal)
    limits = {
        "borrowingLimit": amounts("--borrowing-limit", borrowing),
        "lendingLimit": amounts("--lending-limit", lending),
    }
    for option, given in (
        ("--borrowing-limit", limits["borrowingLimit"]),
        ("--lending-limit", limits["lendingLimit"]),
    ):
        for flavor, resources in given.items():
            unknown = [name for name in resources if name not in quotas.get(flavor, {})]
            if unknown:
                raise UsageError(
                    f"{option}: {flavor}:{unknown[0]} has no --nominal-quota (add one, 0 is enough)"
                )
    groups: dict[tuple[str, ...], list[Json]] = {}
    for flavor, resources in quotas.items():
        covered = _group_of(groups, flavor, tuple(resources))
        groups.setdefault(covered, []).append(
            {"name": flavor, "resources": _quotas(flavor, covered, quotas, limits)}
        )
    return [{"coveredResources": list(covered), "flavors": flavors} for covered, flavors in groups.items()]


def _group_of(groups: Iterable[tuple[str, ...]], flavor: str, resources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the resources of the group of a flavor, in the order of the group."""
    for covered in groups:
        if set(covered) == set(resources):
            return covered
        if both := set(covered) & set(resources):
            raise UsageError(
                f"--nominal-quota: {flavor} has {', '.join(resources)}, another flavor {', '.join(covered)}: "
                f"{min(both)} can be in one group only (list the same resources for both, 0 is enough)"
            )
    return resources


def _quotas(flavor: str, covered: Iterable[str], quotas: Amounts, limits: dict[str, Amounts]) -> list[Json]:
    return [
        {
            "name": name,
            "nominalQuota": str(quotas[flavor][name]),
            **{
                field: str(given[flavor][name])
                for field, given in limits.items()
                if name in given.get(flavor, {})
            },
        }
        for name in covered
    ]


def amounts(option: str, written: Sequence[str]) -> Amounts:
    """Parse ``FLAVOR:cpu=8;memory=36Gi``, separated by commas or repeated."""
    parsed: Amounts = {}
    for one in (part.strip() for option_value in written for part in option_value.split(",")):
        flavor, colon, rest = one.partition(":")
        if not flavor or not colon:
            raise UsageError(
                f"{option}: {one!r} has no flavor or no resources (write FLAVOR:cpu=8;memory=36Gi)"
            )
        if flavor in parsed:
            raise UsageError(f"{option}: flavor {flavor} is given twice")
        parsed[flavor] = {}
        for pair in rest.removesuffix(";").split(";"):
            name, equals, amount = pair.partition("=")
            if not is_qualified_name(name) or not equals:
                raise UsageError(f"{option}: {flavor}:{pair!r} is no amount (write RESOURCE=AMOUNT)")
            if name in parsed[flavor]:
                raise UsageError(f"{option}: {flavor}:{name} is given twice")
            try:
                parsed[flavor][name] = parse_quantity(amount)
            except InvalidQuantity as error:
                raise UsageError(f"{option}: {flavor}:{name}: {error}") from error
            if parsed[flavor][name].nanos < 0:
                raise UsageError(f"{option}: {flavor}:{name}: {amount!r} is negative (write 0 or more)")
    return parsed


def pairs(option: str, written: Sequence[str]) -> dict[str, str]:
    """Parse ``a=b``, separated by commas or repeated."""
    labels: dict[str, str] = {}
    for one in (part.strip() for option_value in written for part in option_value.split(",")):
        key, equals, value = one.partition("=")
        if not is_qualified_name(key) or not equals or not is_label_value(value):
            raise UsageError(f"{option}: {one!r} is no label (write KEY=VALUE)")
        labels[key] = value
    return labels


def taints(written: Sequence[str]) -> list[Json]:
    """Parse ``gpu=yes:NoSchedule``; the value is optional."""
    return [_taint("--node-taints", text) for text in written]


def tolerations(written: Sequence[str]) -> list[Json]:
    """Parse tolerations: ``gpu=yes:NoSchedule`` is ``Equal``, ``gpu:NoSchedule`` is ``Exists``."""
    parsed = []
    for text in written:
        taint = _taint("--tolerations", text)
        operator = "Equal" if "value" in taint else "Exists"
        parsed.append({**taint, "operator": operator})
    return parsed


def _taint(option: str, written: str) -> Json:
    pair, colon, effect = written.rpartition(":")
    key, equals, value = pair.partition("=")
    is_pair = is_qualified_name(key) and is_label_value(value)
    if not colon or not is_pair or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise UsageError(f"{option}: {written!r} is no taint (write KEY=VALUE:NoSchedule or KEY:NoSchedule)")
    return {"key": key, "effect": effect, **({"value": value} if equals else {})}
