"""Structured log lines: an event with fields, as text for people or JSON for machines."""

import json
import logging
import sys
from dataclasses import dataclass
from typing import TextIO

from headwater.errors.tree import redacted
from headwater.runtime.clock import Clock

Field = str | int | float | bool | None


class Events:
    """Log the events of one component."""

    def __init__(self, component: str) -> None:
        self._logger = logging.getLogger(f"headwater.{component}")

    def debug(self, event: str, **fields: Field) -> None:
        """Log a detail that helps with debugging."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Field) -> None:
        """Log something that is normal."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Field) -> None:
        """Log something that an operator should look at."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, cause: BaseException | None = None, **fields: Field) -> None:
        """Log a failure, with the traceback of its cause if there is one."""
        self._logger.error(event, extra={"fields": fields}, exc_info=cause)

    def _write(self, level: int, event: str, fields: dict[str, Field]) -> None:
        self._logger.log(level, event, extra={"fields": fields})


class Sparing:
    """Limit the events that a client can cause: a few per interval, then only a count."""

    def __init__(self, clock: Clock, *, lines_max: int, period_s: float = 10.0) -> None:
        self._clock = clock
        self._lines_max = lines_max
        self._period_s = period_s
        self._kinds: dict[object, _Kind] = {}

    def turn(self, kind: object = None) -> dict[str, int] | None:
        """Return the fields for an event of a kind, or None if it is to be dropped.

        The fields say how many of the kind were dropped before. There must be few kinds.
        """
        now = self._clock.monotonic()
        seen = self._kinds.setdefault(kind, _Kind(now))
        if now - seen.began_at >= self._period_s:
            seen.began_at, seen.lines = now, 0
        if seen.lines >= self._lines_max:
            seen.left_out += 1
            return None
        seen.lines += 1
        left_out, seen.left_out = seen.left_out, 0
        return {"left_out": left_out} if left_out else {}


@dataclass(slots=True)
class _Kind:
    began_at: float
    lines: int = 0
    left_out: int = 0


class TextFormat(logging.Formatter):
    """Format `time level component event key=value …`."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        """Format one record as a line."""
        fields = "".join(f" {key}={_shown(value)}" for key, value in _fields(record).items())
        name = record.name.removeprefix("headwater.")
        line = f"{self.formatTime(record)} {record.levelname:<7} {name} {record.getMessage()}"
        return redacted(line + fields + _trace(self, record))


class JsonFormat(logging.Formatter):
    """Format one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record as a line."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "component": record.name.removeprefix("headwater."),
            "event": record.getMessage(),
            **_fields(record),
        }
        if trace := _trace(self, record):
            line["trace"] = trace
        return redacted(json.dumps(line))


def configure_events(*, level: str = "INFO", as_json: bool = False) -> None:
    """Log the events of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if as_json else TextFormat())
    # Log lines of libraries take the same form, so that a machine can parse every line.
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger("headwater").setLevel(level)


class _Unconfigured(logging.StreamHandler[TextIO]):
    """Print warnings if nobody configured logging; Python's own fallback omits their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.setLevel(logging.WARNING)
        self.setFormatter(TextFormat())

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record unless somebody configured logging."""
        if not logging.getLogger().handlers:
            self.setStream(sys.stderr)
            super().emit(record)


logging.getLogger("headwater").addHandler(_Unconfigured())


def _fields(record: logging.LogRecord) -> dict[str, Field]:
    fields = getattr(record, "fields", {})
    assert isinstance(fields, dict)
    return fields


def _shown(value: Field) -> str:
    text = str(value)
    is_plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if text and is_plain else json.dumps(text)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    # A fault may quote what a client sent, which is not to move the cursor of a terminal.
    lines = formatter.formatException(record.exc_info).split("\n")
    return "".join(f"\n{line if line.isprintable() else _visible(line)}" for line in lines)


def _visible(line: str) -> str:
    return "".join(
        each if each.isprintable() or each == "\t" else repr(each)[1:-1] for each in line
    )
