"""``python -m quorate.cli.estimation.worker``: compute estimates for the process that sends objects on stdin.

It ends with its standard input, so that it never outlives the controllers.
"""

import os
import sys
import time
from typing import Final, assert_never

from quorate.api import codec
from quorate.api.configuration import default_configuration, load_configuration
from quorate.cli.estimation.messages import KINDS, Configure, Play, Put, Remove, frame, read_message
from quorate.cli.process import tune_garbage_collection
from quorate.simulate.estimates.rolling_forecast import RollingForecast

_NICENESS: Final = 10  # the controllers come first: beside them it gets a tenth of a busy core


def main() -> None:
    os.nice(_NICENESS)
    tune_garbage_collection()
    forecast = RollingForecast(time.process_time)
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
            case _:
                assert_never(message)


if __name__ == "__main__":
    main()
