"""Errors of the outside world as one clear message each; what is none of these is a fault of ours."""

from quorate.cli.files import InvalidFiles
from quorate.cli.run.apply import DefinitionNotServed
from quorate.controllers.informers import NotSynced
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.kubeconfig import InvalidKubeconfig
from quorate.local.cluster import AddressUnusable
from quorate.local.directory import DirectoryInUse, DirectoryUnusable
from quorate.observe.serving import CannotListen


class Refusal(Exception):
    """A command cannot do what it was asked; the text says why and what to do."""


_KNOWN = (
    Refusal,
    AddressUnusable,
    ApiError,
    CannotListen,
    DefinitionNotServed,
    DirectoryUnusable,
    InvalidKubeconfig,
    InvalidFiles,
    NotSynced,
    Unreachable,
    Unreadable,
)


def message_of(error: BaseException) -> str | None:
    """What to tell the user; ``None`` when only a traceback can help, because we are wrong."""
    match error:
        case DirectoryInUse():
            return f"{error} (stop it with `quorate local down`, or choose another directory with --data-dir)"
        case BaseExceptionGroup():
            messages = [message_of(each) for each in error.exceptions]
            known = [message for message in messages if message is not None]
            return "\n".join(known) if len(known) == len(messages) else None
        case _ if isinstance(error, _KNOWN):
            return str(error)
        case _:
            return None
