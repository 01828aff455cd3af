"""Options that name configuration files."""

from pathlib import Path
from typing import Annotated

import typer

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The Configuration of the queueing controllers. Default: all defaults."
    ),
]
SchedulerConf = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Volcano's scheduler configuration: actions, tiers of plugins. Default: all defaults.",
    ),
]


def _scheduler_name(written: str) -> str:
    if not written:
        raise typer.BadParameter(
            "'' is no schedulerName (write the schedulerName of the pods, or leave the option out)"
        )
    return written


SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        parser=_scheduler_name,
        help="schedulerName of the pods to schedule; may be repeated. Default: quorate, volcano.",
        show_default=False,
    ),
]
