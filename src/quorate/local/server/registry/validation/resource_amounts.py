"""Validation of resource names and amounts in containers, nodes and quotas."""

from collections.abc import Iterator, Mapping

from quorate.api.quantity import parse_quantity
from quorate.local.objects.errors import Cause, invalid_value, not_supported
from quorate.local.server.registry.defaults.pod_resources import is_huge_pages, is_pod_level
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.formats import check_format

Causes = Iterator[Cause]

COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED = frozenset(
    {
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
"""Counts of objects in a quota: whole numbers."""
QUOTA = (
    COMPUTE
    | COUNTED
    | {"requests.storage"}
    | {f"{side}.{name}" for side in ("requests", "limits") for name in COMPUTE}
)
STANDARD = QUOTA | {"storage"}


def is_native(name: str) -> bool:
    """Return True for a resource of Kubernetes, False for an extended resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    return (
        not is_native(name)
        and not name.startswith("requests.")
        and not any(formats.qualified(f"requests.{name}"))
    )


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


def known_name(name: str, path: str) -> Causes:
    misspelled = [*check_format(name, path, formats.qualified)]
    yield from misspelled
    standard = name in STANDARD or is_huge_pages(name.removeprefix("requests."))
    if not misspelled and "/" not in name and not standard:
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: str) -> Causes:
    yield from known_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not is_huge_pages(name):
            yield invalid_value(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid_value(path, name, "doesn't follow extended resource name standard")


def quota_resource_name(name: str, path: str) -> Causes:
    yield from known_name(name, path)
    if "/" not in name and name not in QUOTA and not is_huge_pages(name.removeprefix("requests.")):
        yield invalid_value(path, name, "must be a standard resource for quota")


def amount(name: str, value: str, path: str) -> Causes:
    quantity = parse_quantity(value)
    if quantity.nanos < 0:
        yield invalid_value(path, value, "must be greater than or equal to 0")
    if (name in COUNTED or is_extended(name)) and quantity.units * 10**9 != quantity.nanos:
        yield invalid_value(path, value, "must be an integer")


def positive_amount(value: str, path: str) -> Causes:
    if parse_quantity(value).nanos <= 0:
        yield invalid_value(path, value, "must be greater than zero")


def container_amounts(amounts: Mapping[str, str], path: str) -> Causes:
    for name, value in amounts.items():
        yield from container_resource_name(name, f"{path}[{name}]")
        yield from amount(name, value, f"{path}[{name}]")


def pod_amounts(amounts: Mapping[str, str], path: str) -> Causes:
    for name, value in amounts.items():
        unknown = [*known_name(name, f"{path}[{name}]")]
        yield from unknown
        if not unknown and not is_pod_level(name):
            yield not_supported(f"{path}[{name}]", name, ("cpu", "hugepages-", "memory"))
        yield from amount(name, value, f"{path}[{name}]")


def node_amounts(amounts: Mapping[str, str], path: str) -> Causes:
    for name, value in amounts.items():
        yield from amount(name, value, f"{path}.{name}")


def quota_amounts(amounts: Mapping[str, str], path: str) -> Causes:
    for name, value in amounts.items():
        yield from quota_resource_name(name, f"{path}[{name}]")
        yield from amount(name, value, f"{path}[{name}]")
