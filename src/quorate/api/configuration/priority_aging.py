"""Priority ageing: by how much waiting raises the priority by which pending workloads are ordered.

The Configuration has a section ``priorityAging``, which is the default.  The annotation of the same name of a
ClusterQueue has the same fields, as YAML or JSON, or is ``None``.
"""

from typing import Final

import msgspec

from quorate.api.decoding import strict as d
from quorate.api.findings import Finding, child_path

PRIORITY_AGING: Final = "quorate.dev/priority-aging"
NO_AGING: Final = "None"
MAX_RAISE: Final = 1_000_000_000  # the highest priority of a PriorityClass of users
_MAX_LENGTH: Final = 500  # of the annotation, characters
_EXAMPLE: Final = "{every: 10m, step: 1, atMost: 50}"


class PriorityAging(msgspec.Struct, frozen=True, kw_only=True):
    """Raise the priority of pending workloads by ``step`` at each multiple of ``every_s``, up to ``at_most``.

    The multiples are those of the clock (epoch seconds), so all workloads of a queue rise at the same time:
    the difference between two of them is constant until one has ``at_most``.
    """

    every_s: int
    step: int = 1
    at_most: int
    also_preempts: bool = False  # the raised priority counts for preemption, too

    def step_at(self, time_s: float) -> int:
        """Return the number of the step that begins last at or before ``time_s``, epoch seconds."""
        return int(time_s // self.every_s)

    def increase(self, since: float, step: int) -> int:
        """Return by how much waiting ``since`` then has raised a priority at the step with this number."""
        return max(0, min(self.at_most, self.step * (step - self.step_at(since))))

    def last_step(self, since: float) -> int:
        """Return the number of the step at which a workload that waits ``since`` then has ``at_most``."""
        return self.step_at(since) - (-self.at_most // self.step)


def decode_priority_aging(fields: d.Section) -> PriorityAging:
    """Decode the fields of the section or of the annotation."""
    fields.require("every", "atMost", hint=f"write {_EXAMPLE}")
    return PriorityAging(
        every_s=fields.take("every", _whole_seconds, 1),
        step=fields.take("step", d.integer(1, MAX_RAISE), 1),
        at_most=fields.take("atMost", d.integer(1, MAX_RAISE), 1),
        also_preempts=fields.take("alsoPreempts", d.boolean, False),
    )


def _whole_seconds(field: d.Field) -> int:
    seconds = d.duration(minimum_s=1.0)(field)
    if seconds != int(seconds):
        raise d.InvalidValue("is not a number of whole seconds (write 10m, 1h30m or 90s)")
    return int(seconds)


def annotated_aging(
    text: str | None, default: PriorityAging | None
) -> tuple[PriorityAging | None, tuple[Finding, ...]]:
    """Return the rule of a ClusterQueue with this annotation, and what is invalid in the annotation.

    Without an annotation, and with one that is invalid, the rule is ``default``.
    """
    if text is None:
        return default, ()
    try:
        return _parse(text), ()
    except d.InvalidConfiguration as invalid:
        path = child_path("metadata.annotations", PRIORITY_AGING)
        return default, tuple(
            Finding(
                f"{path}.{finding.path}".removesuffix(".").replace(".[", "["), finding.value, finding.rule
            )
            for finding in invalid.findings
        )


def _parse(text: str) -> PriorityAging | None:
    if text == NO_AGING:
        return None
    if len(text) > _MAX_LENGTH:
        rule = f"is longer than {_MAX_LENGTH} characters (write {_EXAMPLE})"
        raise d.InvalidConfiguration([Finding("", text, rule)])
    if "&" in text:  # its aliases could make it thousands of times as large
        raise d.InvalidConfiguration([Finding("", text, f"has an anchor (write {_EXAMPLE})")])
    context = d.decode_context(text, f"must hold one mapping (write {_EXAMPLE})")
    aging = context.root().decode(d.section(decode_priority_aging), None)
    if context.findings:
        raise d.InvalidConfiguration(context.findings)
    return aging
