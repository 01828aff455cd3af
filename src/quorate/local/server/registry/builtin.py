"""The built-in kinds: all that the server serves without a CustomResourceDefinition.

``kinds.yaml`` lists them.  Their strategies, conversions and tables are here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.resources import files

import yaml

from quorate.api.codec import Json
from quorate.local.objects.crd.definition import ScalePaths
from quorate.local.objects.tables.builtin import builtin_layout
from quorate.local.objects.tables.layout import TableLayout
from quorate.local.server.registry import autoscaler_versions, object_encoding, version_conversion
from quorate.local.server.registry.kinds import SCALE, STATUS, Kind, StorageConversion, Subresource
from quorate.local.server.registry.strategies import strategy_of

CREATE_ONLY = ("create",)
PROXY_VERBS = ("create", "delete", "get", "patch", "update")
COMPUTED_GROUP = "metrics.k8s.io"
"""Its objects are computed for each request and never decoded."""

SUBRESOURCES = {
    subresource.name: subresource
    for subresource in (
        SCALE,
        STATUS,
        Subresource("approval", STATUS.verbs),
        Subresource("attach", ("create", "get"), kind="PodAttachOptions"),
        Subresource("binding", CREATE_ONLY, kind="Binding"),
        Subresource("ephemeralcontainers", STATUS.verbs),
        Subresource("eviction", CREATE_ONLY, "policy", "v1", "Eviction"),
        Subresource("exec", ("create", "get"), kind="PodExecOptions"),
        Subresource("finalize", ("update",)),
        Subresource("log", ("get",)),
        Subresource("portforward", ("create", "get"), kind="PodPortForwardOptions"),
        Subresource("resize", STATUS.verbs),
        Subresource("token", CREATE_ONLY, "authentication.k8s.io", "v1", "TokenRequest"),
    )
}
CONVERSIONS: dict[tuple[str, str], StorageConversion] = {
    ("events.k8s.io/v1", "Event"): version_conversion.convert_events,
    ("autoscaling/v1", "HorizontalPodAutoscaler"): autoscaler_versions.convert_v1,
}
_AUTOSCALER = builtin_layout("autoscaling", "HorizontalPodAutoscaler")
LAYOUTS = {
    ("autoscaling/v1", "HorizontalPodAutoscaler"): TableLayout(
        _AUTOSCALER.columns, lambda obj, now: _AUTOSCALER.cells(autoscaler_versions.to_v2(obj), now)
    )
}
"""The columns of kinds that are shown as another version."""


def _read_kinds() -> Iterator[Kind]:
    text = files(__package__).joinpath("kinds.yaml").read_text("utf-8")
    for api_version, kinds in yaml.load(text, Loader=yaml.CSafeLoader).items():
        for name, row in kinds.items():
            kind = _kind(api_version, name, row)
            yield kind if kind.group == COMPUTED_GROUP else typed(kind)


def _kind(api_version: str, name: str, row: Json) -> Kind:
    group, _, version = api_version.rpartition("/")
    names = row.pop("subresources", ())
    fields: Json = {part: tuple(value) if isinstance(value, list) else value for part, value in row.items()}
    fields |= dict.fromkeys(fields.pop("is", ()), True)
    selectable = [field.partition("=") for field in fields.pop("fields", ())]
    paths = {
        label.partition("@")[0]: tuple(label.split("@")[1:]) for label, _, _ in selectable if "@" in label
    }
    return Kind(
        group,
        version,
        name,
        namespaced=fields.pop("namespaced", False),
        subresources=tuple(_subresource(name, subresource) for subresource in names),
        selectable_fields={label.partition("@")[0]: absent for label, _, absent in selectable},
        field_paths=paths,
        scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
        if "scale" in names
        else None,
        convert=CONVERSIONS.get((api_version, name)),
        table_layout=LAYOUTS.get((api_version, name)),
        **fields,
    )


def _subresource(kind: str, name: str) -> Subresource:
    return SUBRESOURCES.get(name) or Subresource(name, PROXY_VERBS, kind=f"{kind}ProxyOptions")


def _completing(kind: Kind, default: Callable[[Json], None]) -> Callable[[Json], None]:
    """Return a function that sets defaults and then all fields that Go writes."""

    def default_and_complete(obj: Json) -> None:
        default(obj)
        form = object_encoding.complete(kind, obj)
        obj.clear()
        obj |= form

    return default_and_complete


def typed(kind: Kind) -> Kind:
    """Return a built-in kind with its type, which its objects are decoded with, and its strategy."""
    strategy = strategy_of(kind)
    strategy = replace(
        strategy,
        decode=partial(object_encoding.decode, kind),
        default=_completing(kind, strategy.default),
        default_on_read=_completing(kind, strategy.default_on_read),
    )
    return replace(kind, type=object_encoding.type_of(kind), strategy=strategy)


KINDS = tuple(_read_kinds())
