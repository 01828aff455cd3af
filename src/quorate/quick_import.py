"""An import of a command or process at its start, in less processor time."""

import gc
import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

_AUTHORITIES: Final = "SSL_CERT_FILE"

freeze_imported: Final = cache(gc.freeze)
"""Let no collection visit what exists at the first call.  Later calls do nothing: there is garbage then."""


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
            freeze_imported()  # otherwise the next two collections visit all that was imported
            gc.enable()
        if authorities is None:
            os.environ.pop(_AUTHORITIES, None)
        else:
            os.environ[_AUTHORITIES] = authorities
