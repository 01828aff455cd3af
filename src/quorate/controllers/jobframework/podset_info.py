"""What admission adds to a pod template when a job starts, and how it is taken away when it stops.

Templates stay JSON: they carry fields this project does not know and must keep.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from quorate.api.codec import to_builtins
from quorate.api.core import Toleration
from quorate.api.kueue import SLICE_NAME, WORKLOAD_ANNOTATION

_MAPS = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "nodeSelector"))
_ELASTIC = (WORKLOAD_ANNOTATION, SLICE_NAME)  # a job that grew may still have those of an earlier workload
_LISTS = (("spec", "tolerations"), ("spec", "schedulingGates"))


class PodSetInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod set starts with: how many pods, and what is merged into their template."""

    name: str
    count: int
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class InjectionConflict(msgspec.Struct, frozen=True):
    """The job can never start as it was admitted; trying again cannot help."""

    message: str


def read_template(template: msgspec.Raw) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(template)
    return decoded


def inject(template: msgspec.Raw, info: PodSetInfo) -> dict[str, Any] | InjectionConflict:
    """The merge patch that adds ``info`` to ``template``; a key with another value there is a conflict."""
    present = read_template(template)
    patch: dict[str, Any] = {}
    wanted = {"labels": info.labels, "annotations": info.annotations, "nodeSelector": info.node_selector}
    for section, name in _MAPS:
        have = _part(present, section, name, {})
        want = wanted[name]
        for key in sorted(want):
            if have.get(key, want[key]) != want[key] and not (name == "annotations" and key in _ELASTIC):
                return InjectionConflict(
                    f"pod set {info.name}: {name}[{key}] is {have[key]!r} in the pod template "
                    f"but {want[key]!r} is required where it was admitted"
                )
        if added := {key: value for key, value in want.items() if have.get(key) != value}:
            patch.setdefault(section, {})[name] = added
    have_tolerations = _part(present, "spec", "tolerations", [])
    added_tolerations = _not_yet_in(have_tolerations, to_builtins(info.tolerations))
    if added_tolerations:
        patch.setdefault("spec", {})["tolerations"] = [*have_tolerations, *added_tolerations]
    return patch


def restore(template: msgspec.Raw, original: msgspec.Raw, keep_labels: Collection[str]) -> dict[str, Any]:
    """The merge patch that undoes any injection: metadata and scheduling fields as in ``original``.

    ``keep_labels`` are those that the job's own controller puts on the template.  Affinity is not restored,
    since it is never injected.
    """
    present, wanted = read_template(template), read_template(original)
    patch: dict[str, Any] = {}
    for section, name in _MAPS:
        have, want = _part(present, section, name, {}), _part(wanted, section, name, {})
        kept = {key: have[key] for key in keep_labels if key in have} if name == "labels" else {}
        want = want | kept
        gone = {key: None for key in have if key not in want}
        if changed := gone | {key: value for key, value in want.items() if have.get(key) != value}:
            patch.setdefault(section, {})[name] = changed
    for section, name in _LISTS:
        items = _part(wanted, section, name, [])
        if _part(present, section, name, []) != items:
            patch.setdefault(section, {})[name] = items or None
    return patch


def _part(template: Mapping[str, Any], section: str, name: str, absent: Any) -> Any:
    return (template.get(section) or {}).get(name) or absent


def _not_yet_in(have: Sequence[Any], more: Sequence[Any]) -> list[Any]:
    added: list[Any] = []
    for item in more:
        if item not in have and item not in added:
            added.append(item)
    return added
