"""Errors of the environment (input, files, cluster) as one message each."""

import errno
import os
from typing import Final


class UsageError(Exception):
    """The command cannot do what the arguments ask for; the text says why and what to do instead."""


# A remedy to append to the message.  Errors are listed by name so that a command need not import them all.
KNOWN: Final = {
    "quorate.dashboard.login.oidc.OidcError": "",
    "quorate.inspect.errors.UsageError": "",
    "quorate.inspect.configuration_files.InvalidFiles": "",
    "quorate.processes.local.apply.DefinitionNotServed": "",
    "quorate.controllers.informers.CacheSyncTimeout": "",
    "quorate.controllers.native_groups.NativeGangsUnavailable": "",
    "quorate.kube.errors.ApiError": "",
    "quorate.kube.errors.Unreachable": "",
    "quorate.kube.errors.Unreadable": "",
    "quorate.kube.rest.kubeconfig.InvalidKubeconfig": "",
    "quorate.local.cluster.AddressUnusable": "",
    "quorate.local.directory.DirectoryInUse": (
        "stop it with `quorate local down`, or choose another directory with --data-dir"
    ),
    "quorate.local.directory.DirectoryUnusable": "",
    "quorate.local.runtime.supervisor.KubeletFailed": "the log of the cluster has the whole exception",
    "quorate.local.server.connections.FileLimitTooLow": "",
    "quorate.local.server.storage.database.DatabaseUnusable": "",
    "quorate.dashboard.history.history.UnusableHistory": "",
    "quorate.observe.serving.CannotListen": "",
}


_OF_DISKS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def user_message(error: BaseException) -> str | None:
    """Return the message for the user; None for a bug, which needs a traceback."""
    if isinstance(error, BaseExceptionGroup):
        messages = [user_message(exception) for exception in error.exceptions]
        texts = [message for message in messages if message is not None]
        return "\n".join(texts) if len(texts) == len(messages) else None
    if isinstance(error, OSError) and error.errno in _OF_DISKS:
        return f"{error.filename or 'output'}: {os.strerror(error.errno).lower()}"
    for kind in type(error).__mro__:
        remedy = KNOWN.get(f"{kind.__module__}.{kind.__qualname__}")
        if remedy is not None:
            return f"{error} ({remedy})" if remedy else str(error)
    return None
