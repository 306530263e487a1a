"""Kinds of option values and how each is read from text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import Generic, TypeVar
from zoneinfo import ZoneInfo

LONG_MAX = 2**63 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

_AMOUNT = re.compile(r"([0-9]{1,19})\s*([a-zµ]+)\Z")
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}\Z")
_UTC_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?\Z")

_NANOSECONDS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000_000_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000_000_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000_000_000),
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1_000_000),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1_000),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1),
}
_BYTES = {
    **dict.fromkeys(("b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1024),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1024**2),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1024**3),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1024**4),
}
_UTC_OFFSET_HOURS_MAX = 18

T_co = TypeVar("T_co", covariant=True)
Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """Read one kind of value; `read` returns None for a text that does not fit."""

    name: str
    expected: str
    read: Callable[[str], T_co | None]


def read_duration_ms(text: str) -> int | None:
    """Read a length of time such as `7 d`, `10min` or `0ms` as whole milliseconds."""
    nanoseconds = _amount(text, _NANOSECONDS)
    return None if nanoseconds is None else _within_long(nanoseconds // 1_000_000)


def read_bytes(text: str) -> int | None:
    """Read a memory size such as `512 mb` or `1g` as bytes."""
    amount = _amount(text, _BYTES)
    return None if amount is None else _within_long(amount)


def _amount(text: str, units: dict[str, int]) -> int | None:
    found = _AMOUNT.match(text.strip().lower())
    if found is None or found[2] not in units:
        return None
    return int(found[1]) * units[found[2]]


def _within_long(amount: int) -> int | None:
    return amount if amount <= LONG_MAX else None


def read_boolean(text: str) -> bool | None:
    """Read true or false in any case."""
    return {"true": True, "false": False}.get(text.strip().lower())


def read_text(text: str) -> str | None:
    """Read text that is more than blanks."""
    return text.strip() or None


def read_names(text: str) -> tuple[str, ...] | None:
    """Read names separated by commas; blanks around them do not count."""
    names = tuple(name.strip() for name in text.split(","))
    return names if all(names) and len(names) == len(set(names)) else None


def read_zone(text: str) -> tzinfo | None:
    """Read a zone of the time zone database or a fixed distance from UTC."""
    name = text.strip()
    if name in {"UTC", "GMT", "UT", "Z"}:
        return UTC
    if found := _UTC_OFFSET.match(name):
        return _fixed_zone(sign=found[1], hours=int(found[2]), minutes=int(found[3] or 0))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A key that is unknown, not a plain relative path, or the name of a folder.
        return None


def _fixed_zone(*, sign: str, hours: int, minutes: int) -> tzinfo | None:
    if hours * 60 + minutes > _UTC_OFFSET_HOURS_MAX * 60:
        return None
    distance = timedelta(hours=hours, minutes=minutes)
    return timezone(-distance if sign == "-" else distance)


def whole_number(*, low: int = INT_MIN, high: int = INT_MAX) -> Kind[int]:
    """Make the kind of whole numbers from `low` to `high`, both included."""

    def read(text: str) -> int | None:
        if not _WHOLE.match(text.strip()):
            return None
        number = int(text)
        return number if low <= number <= high else None

    return Kind("whole number", f"a whole number from {low} to {high}", read)


def choice(of: type[Choice]) -> Kind[Choice]:
    """Make the kind of one word out of an enumeration, in any case."""
    members = {member.value: member for member in of}

    def read(text: str) -> Choice | None:
        return members.get(text.strip().lower())

    return Kind("choice", f"one of {', '.join(members)}", read)


DURATION = Kind("duration", "a length of time such as '7 d', '10 min' or '0 ms'", read_duration_ms)
MEMORY = Kind("memory size", "a size with its unit such as '512 mb' or '1 gb'", read_bytes)
BOOLEAN = Kind("boolean", "true or false", read_boolean)
TEXT = Kind("text", "text that is not blank", read_text)
NAMES = Kind("names", "different names separated by commas, or '*'", read_names)
ZONE = Kind("time zone", "a zone such as 'Europe/Berlin', 'UTC' or '+08:00'", read_zone)
