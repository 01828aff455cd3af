"""``python -m quorate.processes.estimation.worker PARENT``: estimate starts from the objects on stdin.

It ends with its standard input, and whatever it computes with the process PARENT, which started it: it never
outlives the controllers.
"""

import gc
import os
import sys
import time
from threading import Thread
from typing import Final, assert_never

from quorate.api import codec
from quorate.api.configuration import default_configuration, load_configuration
from quorate.api.explanation import StartQuestion
from quorate.processes.estimation.messages import (
    KINDS,
    Ask,
    Configure,
    Play,
    Put,
    Remove,
    frame,
    read_message,
)
from quorate.processes.process_setup import tune_garbage_collection
from quorate.simulate.estimates.rolling_forecast import RollingForecast

_LOOK_S: Final = 0.2  # between looks whether the parent process still runs
_NICENESS: Final = 10  # the controllers come first: beside them it gets a tenth of a busy core


def main() -> None:
    Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    os.nice(_NICENESS)
    tune_garbage_collection()
    gc.freeze()  # collections need not visit what has been imported
    forecast = RollingForecast(time.process_time, after_run=gc.collect)
    while (message := read_message(sys.stdin.buffer)) is not None:
        match message:
            case Configure(text):
                loaded = load_configuration(text).configuration if text else default_configuration()
                forecast.configure(loaded)
            case Put(kind, raw):
                resource = KINDS[kind]
                forecast.put(resource, codec.decode(resource.type, raw))
            case Remove(kind, key):
                forecast.remove(KINDS[kind], key)
            case Play(now, budget_s):
                sys.stdout.buffer.write(frame(forecast.refresh(now, budget_s)))
                sys.stdout.buffer.flush()
            case Ask(raw, now, budget_s):
                question = codec.decode(StartQuestion, raw)
                sys.stdout.buffer.write(frame(forecast.would_start(question, now, budget_s)))
                sys.stdout.buffer.flush()
            case _:
                assert_never(message)


def _end_with_parent(parent: int) -> None:
    """End this process, whatever it computes, once ``parent`` is no longer its parent process."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(0)


if __name__ == "__main__":
    main()
