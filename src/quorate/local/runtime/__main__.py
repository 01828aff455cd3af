"""``python -m quorate.local.runtime FILE``: start the kubelet process in the namespaces of its node.

The process replaces itself to enter them, and imports the kubelet when it has: the imports take 0.4 s.
"""

import sys
import traceback
from pathlib import Path

from quorate.local.runtime.configuration import ERROR_FILE, read_configuration
from quorate.local.runtime.containers.processes import end_processes
from quorate.local.runtime.network.namespaces import enter, read_namespaces
from quorate.quick_import import quick_import


def main() -> None:
    configuration = read_configuration(Path(sys.argv[1]))
    state = Path(configuration.state)
    try:
        if read_namespaces(state) is None:
            end_processes(state)  # of containers in namespaces that have ended
        reason = enter(state, [sys.executable, "-m", "quorate.local.runtime", sys.argv[1]])
        process = quick_import("quorate.local.runtime.process", reads_authorities=False)
        process.run_process(configuration, reason)
    except Exception as error:
        (state / ERROR_FILE).write_text(_last_line(error))
        raise


def _last_line(error: BaseException) -> str:
    """Return the last line of the traceback of an exception, or of the first exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return traceback.format_exception_only(error)[-1].strip()


if __name__ == "__main__":
    main()
