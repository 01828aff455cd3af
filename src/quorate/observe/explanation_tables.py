"""Lists of explanations as Tables, which ``kubectl get explanations`` prints."""

from typing import Any, Final

from quorate.api.explanation import ExplanationSummary
from quorate.api.human_duration import human_duration
from quorate.api.meta import epoch

# Title, format, whether only ``-o wide`` shows it, and a description.
_COLUMNS: Final = (
    ("Name", "name", False, "The workload or the pod group."),
    ("State", "", False, "Its state, such as Queued, Held, Stuck or Running."),
    ("Reason", "", False, "The code of the reason that decides the state; empty if it runs."),
    ("Since", "", False, "How long it has been in this state."),
    ("Message", "", False, "The reason as a sentence, with numbers."),
    ("Enough", "", True, "What would let it start."),
)
_TABLE: Final = frozenset(("as=Table", "v=v1", "g=meta.k8s.io"))


def prefers_table(accept: str) -> bool:
    """Return True if the first media type of the header ``Accept`` is a Table, as kubectl requests it."""
    _, *parameters = accept.partition(",")[0].split(";")
    return {parameter.strip() for parameter in parameters} >= _TABLE


def table_frame(token: str) -> dict[str, Any]:
    """Return a Table without rows; ``token`` names the next page, and is empty on the last one."""
    columns = [
        {"name": name, "type": "string", "format": form, "description": text, "priority": int(is_wide)}
        for name, form, is_wide, text in _COLUMNS
    ]
    metadata = {"continue": token} if token else {}
    return {
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns
    }  # fmt: skip


def table_row(summary: ExplanationSummary, now: float) -> dict[str, Any]:
    """Return the row of a summary at ``now`` (epoch seconds)."""
    since = "" if summary.since is None else human_duration(now - epoch(summary.since))
    cells = (
        summary.metadata.name, summary.state, summary.code, since, summary.message,
        "; ".join(summary.enough),
    )  # fmt: skip
    identity = {
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": summary.metadata
    }  # fmt: skip
    return {"cells": cells, "object": identity}
