"""Kinds of values, and how options and settings of these kinds are declared."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, timedelta, timezone, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar
from zoneinfo import ZoneInfo

from headwater.errors import InvalidOptionError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Kinds of option values, and how each is parsed from text.

LONG_MAX = 2**63 - 1
INT_MIN, INT_MAX = -(2**31), 2**31 - 1

_AMOUNT = re.compile(r"([0-9]{1,19})\s*([a-zµ]+)\Z")
_SHARE = re.compile(r"(?:0?\.[0-9]{1,17}|0|1(?:\.0{1,17})?)\Z")
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
    """Parse one kind of value; `read` returns None if the text does not fit."""

    name: str
    expected: str
    read: Callable[[str], T_co | None]


def read_duration_ms(text: str) -> int | None:
    """Parse a duration such as `7 d`, `10min` or `0ms` into milliseconds."""
    nanoseconds = _amount(text, _NANOSECONDS)
    return None if nanoseconds is None else _within_long(nanoseconds // 1_000_000)


def read_bytes(text: str) -> int | None:
    """Parse a memory size such as `512 mb` or `1g` into bytes."""
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
    """Parse true or false in any case."""
    return {"true": True, "false": False}.get(text.strip().lower())


def read_text(text: str) -> str | None:
    """Parse text that is not blank."""
    return text.strip() or None


def read_names(text: str) -> tuple[str, ...] | None:
    """Parse names separated by commas; whitespace around them is ignored."""
    names = tuple(name.strip() for name in text.split(","))
    return names if all(names) and len(names) == len(set(names)) else None


def read_zone(text: str) -> tzinfo | None:
    """Parse an IANA time zone, or a fixed offset from UTC."""
    name = text.strip()
    if name in {"UTC", "GMT", "UT", "Z"}:
        return UTC
    if found := _UTC_OFFSET.match(name):
        return _fixed_zone(sign=found[1], hours=int(found[2]), minutes=int(found[3] or 0))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # An unknown zone, not a plain relative path, or the name of a folder.
        return None


def _fixed_zone(*, sign: str, hours: int, minutes: int) -> tzinfo | None:
    if hours * 60 + minutes > _UTC_OFFSET_HOURS_MAX * 60:
        return None
    distance = timedelta(hours=hours, minutes=minutes)
    return timezone(-distance if sign == "-" else distance)


def whole_number(*, low: int = INT_MIN, high: int = INT_MAX) -> Kind[int]:
    """Make the kind of whole numbers from `low` to `high`, inclusive."""

    def read(text: str) -> int | None:
        if not _WHOLE.match(text.strip()):
            return None
        number = int(text)
        return number if low <= number <= high else None

    return Kind("whole number", f"a whole number from {low} to {high}", read)


def memory_size(*, low: int, high: int) -> Kind[int]:
    """Make the kind of sizes from `low` to `high` bytes, inclusive."""

    def read(text: str) -> int | None:
        amount = read_bytes(text)
        return amount if amount is not None and low <= amount <= high else None

    return Kind("memory size", f"a size such as '64 mb', from {low} b to {high} b", read)


def read_share(text: str) -> float | None:
    """Parse a share between 0 and 1, such as `0.5`."""
    return float(text) if _SHARE.match(text.strip()) else None


def choice(of: type[Choice]) -> Kind[Choice]:
    """Make the kind of enumeration members, in any case."""
    members = {member.value: member for member in of}

    def read(text: str) -> Choice | None:
        return members.get(text.strip().lower())

    return Kind("choice", f"one of {', '.join(members)}", read)


DURATION = Kind("duration", "a duration such as '7 d', '10 min' or '0 ms'", read_duration_ms)
MEMORY = Kind("memory size", "a size with its unit, such as '512 mb' or '1 gb'", read_bytes)
SHARE = Kind("share", "a share from 0 to 1, such as '0.5'", read_share)
BOOLEAN = Kind("boolean", "true or false", read_boolean)
TEXT = Kind("text", "text that is not blank", read_text)
NAMES = Kind("names", "distinct names separated by commas, or '*'", read_names)
ZONE = Kind("time zone", "a zone such as 'Europe/Berlin', 'UTC' or '+08:00'", read_zone)


SHOWN_CHARACTERS_MAX = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """Declare an option; the default is text and parsed like a value that a user gives."""

    name: str
    kind: Kind[T_co]
    description: str
    default: str | None = None
    alterable: bool = False

    def of(self, properties: Mapping[str, str]) -> T_co | None:
        """Parse the value, or the default if there is none; None if there is neither."""
        text = properties.get(self.name, self.default)
        return None if text is None else self.read(text)

    def required(self, properties: Mapping[str, str]) -> T_co:
        """Parse the value or the default, for an option that has a default."""
        value = self.of(properties)
        assert value is not None, self.name
        return value

    def read(self, text: str) -> T_co:
        """Parse a value; the error says what is expected instead."""
        value = self.kind.read(text)
        if value is None:
            raise InvalidOptionError(
                f"'{self.name}' cannot be {shown(text)}.", hint=f"Expected {self.kind.expected}."
            )
        return value


def shown(text: str) -> str:
    """Quote text from outside, cut to a length that fits into a message."""
    return repr(text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…")


# Declarations of settings: a default, a description, and a check of the value.


def integer(default: int, description: str) -> int:
    """Declare a whole number."""
    setting: int = field(default=default, metadata={"description": description})
    return setting


def integer_or_none(description: str) -> int | None:
    """Declare a whole number that is unset by default."""
    setting: int | None = field(default=None, metadata={"description": description})
    return setting


def seconds(default: float, description: str) -> float:
    """Declare a duration in seconds."""
    setting: float = field(default=default, metadata={"description": description})
    return setting


def switch(description: str, *, default: bool = False) -> bool:
    """Declare a setting that is on or off."""
    setting: bool = field(default=default, metadata={"description": description})
    return setting


def text(default: str, description: str) -> str:
    """Declare a text."""
    setting: str = field(default=default, metadata={"description": description})
    return setting


def properties(description: str) -> Mapping[str, str]:
    """Declare a mapping of names to values, empty by default."""
    # Some of them are secrets, so none is shown.
    setting: Mapping[str, str] = field(
        default_factory=dict, repr=False, metadata={"description": description}
    )
    return setting


def described(settings: "type[DataclassInstance]") -> Iterator[tuple[str, str, str]]:
    """Yield the name, default and description of each setting, for the reference page."""
    for setting in fields(settings):
        default = "" if setting.default in (MISSING, None) else str(setting.default)
        yield setting.name, default, setting.metadata["description"]


def check_positive(settings: "DataclassInstance", *, free: Collection[str]) -> None:
    """Reject values that are not above 0, except in the settings named `free`."""
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if setting.name not in free and not value > 0:
            raise InvalidOptionError(f"'{setting.name}' must be above 0, not {value}.")
