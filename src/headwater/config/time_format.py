"""How a point in time is written as a partition value."""

import re
from dataclasses import dataclass
from datetime import datetime

from headwater.config.choices import TimeUnit
from headwater.errors import InvalidOptionError, InvalidPartitionError
from headwater.model.path import check_partition_value

# Fields of fixed width, largest first, order texts as they order times.
FIELDS: dict[TimeUnit, tuple[str, ...]] = {
    TimeUnit.YEAR: ("yyyy",),
    TimeUnit.QUARTER: ("yyyy", "Q"),
    TimeUnit.MONTH: ("yyyy", "MM"),
    TimeUnit.DAY: ("yyyy", "MM", "dd"),
    TimeUnit.HOUR: ("yyyy", "MM", "dd", "HH"),
}
_TOKEN = re.compile(r"yyyy|MM|dd|HH|Q|[-_]")
_PATTERNS = {
    "yyyy": "(?P<year>[0-9]{4})",
    "Q": "(?P<quarter>[1-4])",
    "MM": "(?P<month>[0-9]{2})",
    "dd": "(?P<day>[0-9]{2})",
    "HH": "(?P<hour>[0-9]{2})",
}
_MONTHS_PER_QUARTER = 3
_EXAMPLE = datetime(2024, 11, 11, 11)  # noqa: DTZ001  # a wall-clock time, in no zone


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """Write and read wall-clock times in one pattern of yyyy, Q, MM, dd, HH, '-' and '_'."""

    pattern: str

    def write(self, wall: datetime) -> str:
        """Write a wall-clock time, dropping what the pattern does not show."""
        shown = {
            "yyyy": f"{wall.year:04}",
            "Q": str((wall.month - 1) // _MONTHS_PER_QUARTER + 1),
            "MM": f"{wall.month:02}",
            "dd": f"{wall.day:02}",
            "HH": f"{wall.hour:02}",
        }
        return "".join(shown.get(token, token) for token in _TOKEN.findall(self.pattern))

    def read(self, text: str) -> datetime | None:
        """Read the first moment of the span that the text names, or None."""
        expression = "".join(_PATTERNS.get(token, token) for token in _TOKEN.findall(self.pattern))
        found = re.fullmatch(expression, text)
        if found is None:
            return None
        part = {name: int(number) for name, number in found.groupdict().items()}
        month = part.get("month", (part.get("quarter", 1) - 1) * _MONTHS_PER_QUARTER + 1)
        try:
            return datetime(part["year"], month, part.get("day", 1), part.get("hour", 0))  # noqa: DTZ001  # a wall-clock time, in no zone
        except ValueError:
            return None


def default_format(unit: TimeUnit) -> TimeFormat:
    """Return the format of a unit without punctuation."""
    return TimeFormat("".join(FIELDS[unit]))


def custom_format(pattern: str, unit: TimeUnit) -> TimeFormat:
    """Return a format that shows exactly the fields of a unit, or say what is wrong with it."""
    tokens = _TOKEN.findall(pattern)
    wanted = FIELDS[unit]
    if "".join(tokens) != pattern or tuple(t for t in tokens if t in _PATTERNS) != wanted:
        raise InvalidOptionError(
            f"'table.auto-partition.time-format' cannot be {pattern[:80]!r} "
            f"for the time unit {unit}.",
            hint=f"Expected {', '.join(wanted)} in this order, with '-' or '_' around them.",
        )
    _check_values_of(TimeFormat(pattern))
    return TimeFormat(pattern)


def _check_values_of(time_format: TimeFormat) -> None:
    try:
        check_partition_value(time_format.write(_EXAMPLE))
    except InvalidPartitionError as error:
        raise InvalidOptionError(
            f"'table.auto-partition.time-format' makes partition values that are not allowed: "
            f"{error.message}"
        ) from error
