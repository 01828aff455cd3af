"""Run a story in the namespaces of a node: ``enter STORY DIRECTORY``.  Only ``inside`` imports much."""

import sys
from pathlib import Path

from quorate.local.runtime.network.namespaces import enter

if __name__ == "__main__":
    inside = [sys.executable, "-m", "tests.local.runtime.network.inside", *sys.argv[1:]]
    sys.exit(enter(Path(sys.argv[2]), inside))
