"""Write the reference pages: ``python -m quorate.cli.reference DIRECTORY``."""

import sys
from pathlib import Path

from quorate.cli.reference import PAGES

for name, page in PAGES.items():
    (Path(sys.argv[1]) / name).write_text(page(), encoding="utf-8")
