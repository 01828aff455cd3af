"""Errors of the outside world as one clear message each; what is none of these is a fault of ours."""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    COMPLETED = 0
    FAILED = 1
    BAD_INPUT = 2  # also what the option parser uses
    NO_PROGRESS = 3
    TIMED_OUT = 4
    INTERRUPTED = 130  # as shells say of what SIGINT ended


class UsageError(Exception):
    """A command cannot do what it was asked; the text says why and what to do."""


# What to do beside what the error says.  By name: who fails need not import what others would fail with.
KNOWN: Final = {
    "quorate.cli.errors.UsageError": "",
    "quorate.cli.files.InvalidFiles": "",
    "quorate.cli.run.apply.DefinitionNotServed": "",
    "quorate.controllers.informers.CacheSyncTimeout": "",
    "quorate.kube.errors.ApiError": "",
    "quorate.kube.errors.Unreachable": "",
    "quorate.kube.errors.Unreadable": "",
    "quorate.kube.rest.kubeconfig.InvalidKubeconfig": "",
    "quorate.local.cluster.AddressUnusable": "",
    "quorate.local.directory.DirectoryInUse": (
        "stop it with `quorate local down`, or choose another directory with --data-dir"
    ),
    "quorate.local.directory.DirectoryUnusable": "",
    "quorate.observe.serving.CannotListen": "",
}


def user_message(error: BaseException) -> str | None:
    """What to tell the user; ``None`` when only a traceback can help, because we are wrong."""
    if isinstance(error, BaseExceptionGroup):
        messages = [user_message(each) for each in error.exceptions]
        known = [message for message in messages if message is not None]
        return "\n".join(known) if len(known) == len(messages) else None
    for kind in type(error).__mro__:
        remedy = KNOWN.get(f"{kind.__module__}.{kind.__qualname__}")
        if remedy is not None:
            return f"{error} ({remedy})" if remedy else str(error)
    return None
