"""``metrics.customLabels`` of Configuration: labels of series, whose values stand on objects of the API."""

import re
from typing import Final, Literal, get_args

import msgspec

from quorate.api.decoding.strict import Place, Section, choice, list_of, section, shaped, text
from quorate.api.syntax import is_qualified_name

Source = Literal["ClusterQueue", "Cohort", "LocalQueue", "Workload"]


class CustomLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One label; exported as ``custom_<name>``."""

    name: str
    source: Source = "ClusterQueue"
    key: str  # of the label of the source, or of its annotation
    annotated: bool = False
    tracked: tuple[str, ...] = ()  # the values told apart; none: all of them


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_name: Final = shaped(
    lambda name: _NAME.fullmatch(name) is not None,
    "a name of letters, digits and _ that starts with a letter",
)


def _label(fields: Section) -> CustomLabel:
    name = fields.take("name", _name, "")
    if "name" not in fields:
        fields.at("name").refuse("is missing (write what comes after custom_ in the name of the label)")
    label = fields.take("sourceLabelKey", shaped(is_qualified_name, "the key of a label"), "")
    annotation = fields.take("sourceAnnotationKey", shaped(is_qualified_name, "the key of an annotation"), "")
    if label and annotation:
        fields.at("sourceAnnotationKey").refuse("contradicts sourceLabelKey (give one of the two)")
    return CustomLabel(
        name=name,
        source=fields.take("sourceKind", choice(get_args(Source)), "ClusterQueue"),
        key=annotation or label or name,
        annotated=bool(annotation),
        tracked=fields.take("trackedValues", list_of(text, most=16), ()),
    )


def custom_labels(place: Place) -> tuple[CustomLabel, ...]:
    list_of(lambda item: item.value, most=20)(place)
    labels: list[CustomLabel] = []
    for item in place.items():
        label = item.read(section(_label), None)
        if label is None:
            continue
        before = [each for each in labels if each.source == label.source]
        if any(each.name == label.name for each in labels):
            item.entry("name").refuse("names two labels (choose another)")
        if len(set(label.tracked)) < len(label.tracked):
            item.entry("trackedValues").refuse("lists a value twice (leave one out)")
        if label.source == "Workload" and not 1 <= len(label.tracked) <= 12:
            item.entry("trackedValues").refuse("must list 1 to 12 values for sourceKind Workload")
        if len(before) == (most := 2 if label.source == "Workload" else 6):
            item.refuse(f"is one label too many for sourceKind {label.source}, at most {most}")
        labels.append(label)
    return tuple(labels)
