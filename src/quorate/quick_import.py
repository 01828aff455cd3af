"""An import of a command or process at its start, in less processor time."""

import gc
import os
from importlib import import_module
from types import ModuleType
from typing import Final

_AUTHORITIES: Final = "SSL_CERT_FILE"


def quick_import(module: str, *, reads_authorities: bool) -> ModuleType:
    """Return a module, imported without garbage collections, a tenth of the time: what it creates is kept.

    At its import aiohttp reads the certificate authorities of the machine, twice, which takes 3 MB, for
    requests without a TLS context of their own; unless ``reads_authorities`` is False.
    """
    was_enabled, authorities = gc.isenabled(), os.environ.get(_AUTHORITIES)
    gc.disable()
    if not reads_authorities:
        os.environ[_AUTHORITIES] = os.devnull
    try:
        return import_module(module)
    finally:
        if was_enabled:
            if not gc.get_freeze_count():  # once: a process that goes on has garbage by then
                gc.freeze()  # otherwise the next two collections visit all that was imported
            gc.enable()
        if authorities is None:
            os.environ.pop(_AUTHORITIES, None)
        else:
            os.environ[_AUTHORITIES] = authorities
