"""Write the reference pages: ``python -m reference DIRECTORY``."""

import sys
from pathlib import Path

from reference import PAGES

for name, page in PAGES.items():
    (Path(sys.argv[1]) / name).write_text(page(), encoding="utf-8")
