"""``python -m tests.newcomer PAGE DIRECTORY PROGRAMS``: type the commands of one page."""

import os
import sys
from pathlib import Path

from tests.e2e.commands import ROOT
from tests.newcomer.reader import Differs, Reader

page, given_directory, given_programs = sys.argv[1:]
programs = Path(given_programs)
kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "USER")}
environment = {
    **kept,
    "GIVEN": str(Path(__file__).with_name("given")),
    "REPOSITORY": str(ROOT),
    "VENV": str(programs.parent),
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": str(programs.parent.parent / "wheels"),
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
reader = Reader(page, Path(given_directory), programs, environment)
try:
    reader.read((ROOT / page).read_text())
except Differs as difference:
    sys.exit(f"{page}: {difference}")
sys.stdout.write(f"{reader.typed} commands typed\n")
