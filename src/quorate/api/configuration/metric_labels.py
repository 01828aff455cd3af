"""``metrics.customLabels`` of Configuration: metric labels with values from API objects."""

import re
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.strict import Field, Section, choice, list_of, section, text, text_matching
from quorate.api.syntax import is_qualified_name

LabelSource = Literal["ClusterQueue", "Cohort", "LocalQueue", "Workload"]


class CustomLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A label that is exported as ``custom_<name>``."""

    name: str
    source: LabelSource = "ClusterQueue"
    key: str  # key of the source's label or annotation
    from_annotation: bool = False
    tracked_values: tuple[str, ...] = ()  # values that are kept apart; empty: all


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_name: Final = text_matching(
    lambda name: _NAME.fullmatch(name) is not None,
    "a name of letters, digits and _ that starts with a letter",
)


def _label(fields: Section) -> CustomLabel:
    name = fields.take("name", _name, "")
    fields.require("name", hint="write what comes after custom_ in the name of the label")
    label = fields.take("sourceLabelKey", text_matching(is_qualified_name, "the key of a label"), "")
    annotation = fields.take(
        "sourceAnnotationKey", text_matching(is_qualified_name, "the key of an annotation"), ""
    )
    if label and annotation:
        fields.at("sourceAnnotationKey").reject("contradicts sourceLabelKey (give one of the two)")
    return CustomLabel(
        name=name,
        source=fields.take("sourceKind", choice(get_args(LabelSource)), "ClusterQueue"),
        key=annotation or label or name,
        from_annotation=bool(annotation),
        tracked_values=fields.take("trackedValues", list_of(text, maximum=16), ()),
    )


def decode_custom_labels(field: Field) -> tuple[CustomLabel, ...]:
    list_of(lambda item: item.value, maximum=20)(field)
    labels: list[CustomLabel] = []
    for item in field.items():
        label = item.decode(section(_label), None)
        if label is None:
            continue
        before = [earlier for earlier in labels if earlier.source == label.source]
        if any(earlier.name == label.name for earlier in labels):
            item.entry("name").reject("names two labels (choose another)")
        if len(set(label.tracked_values)) < len(label.tracked_values):
            item.entry("trackedValues").reject("lists a value twice (leave one out)")
        if label.source == "Workload" and not 1 <= len(label.tracked_values) <= 12:
            item.entry("trackedValues").reject("must list 1 to 12 values for sourceKind Workload")
        if len(before) == (maximum := 2 if label.source == "Workload" else 6):
            item.reject(f"is one label too many for sourceKind {label.source}, at most {maximum}")
        labels.append(label)
    return tuple(labels)
