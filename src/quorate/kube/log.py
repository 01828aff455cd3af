"""Structured logging: one line per decision, with a constant message and keys for the rest.

    log = logger(__name__)
    log.info("workload admitted", queue=queue, waited_s=12.5)

``configure`` selects console lines or JSON.  Credentials are never logged: types that hold a token omit it
from their ``repr``.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TextIO

import msgspec

Format = Literal["console", "json"]
_KEYS = "quorate_keys"
_QUOTED = re.compile('[ "=\n]')  # characters of texts in quotes
_JSON = (str, int, float, list, tuple, dict, type(None))  # encoded as they are; other values as ``str``


class Log:
    """A logger; ``bind`` returns a logger that adds keys to each line."""

    def __init__(self, target: logging.Logger, keys: dict[str, Any]) -> None:
        self._target = target
        self._keys = keys

    def bind(self, **keys: Any) -> "Log":
        return Log(self._target, self._keys | keys)

    def debug(self, message: str, **keys: Any) -> None:
        self._write(logging.DEBUG, message, keys, None)

    def info(self, message: str, **keys: Any) -> None:
        self._write(logging.INFO, message, keys, None)

    def warning(self, message: str, **keys: Any) -> None:
        self._write(logging.WARNING, message, keys, None)

    def error(self, message: str, **keys: Any) -> None:
        self._write(logging.ERROR, message, keys, None)

    def fault(self, message: str, error: BaseException, **keys: Any) -> None:
        """Log an internal error with its traceback."""
        self._write(logging.ERROR, message, keys, error)

    def _write(self, level: int, message: str, keys: dict[str, Any], error: BaseException | None) -> None:
        if self._target.isEnabledFor(level):
            self._target.log(level, message, exc_info=error, extra={_KEYS: self._keys | keys})


def logger(name: str) -> Log:
    return Log(logging.getLogger(name), {})


class ConsoleFormatter(logging.Formatter):
    """``12:00:01 INFO  message  key=value other="two words"``"""

    def format(self, record: logging.LogRecord) -> str:
        moment = _time_of_day(int(record.created))
        pairs = "".join(f" {key}={_shown(value)}" for key, value in _keys_of(record).items())
        line = f"{moment} {record.levelname:<7} {record.getMessage()}{' ' if pairs else ''}{pairs}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@lru_cache(maxsize=1)
def _time_of_day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, then the keys."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{
                key: value if isinstance(value, _JSON) else str(value)
                for key, value in _keys_of(record).items()
            },
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def configure(format_: Format, level: int = logging.INFO, stream: TextIO = sys.stderr) -> None:
    """Send all lines of this process to ``stream``, replacing earlier handlers."""
    # No line shows its place in the code, thread, process or task, and finding them takes half its time.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if format_ == "json" else ConsoleFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _keys_of(record: logging.LogRecord) -> dict[str, Any]:
    keys: dict[str, Any] = getattr(record, _KEYS, {})
    return keys


def _shown(value: Any) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return msgspec.json.encode(text).decode() if not text or _QUOTED.search(text) else text
