"""Each package and module of ``api`` can be the first one that a program imports."""

import subprocess
import sys
from pathlib import Path

import pytest

import quorate.api

_IMPORT_EACH_FIRST = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [each for each in sys.modules if each.startswith("quorate")]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


@pytest.mark.large
def test_no_module_depends_on_the_order_of_imports() -> None:
    root = Path(quorate.api.__path__[0])
    folders = ("", "configuration", "decoding", "scheduler_configuration", "validation")
    modules = [
        ".".join(("quorate.api", *path.relative_to(root).with_suffix("").parts))
        for folder in folders
        for path in sorted((root / folder).glob("*.py"))
        if path.stem != "__init__"
    ]
    assert len(modules) > 30
    subprocess.run([sys.executable, "-c", _IMPORT_EACH_FIRST, *modules], check=True)
