"""Automatic partitions: which ones a table should have at a given time, and how they are named."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from headwater.config.options import TimeUnit
from headwater.errors import InvalidOptionError, InvalidPartitionError
from headwater.model.path import PartitionSpec, check_partition_value, partition_values

# Fixed-width fields, largest first, sort as text in the order of time.
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
    """A pattern of yyyy, Q, MM, dd, HH, '-' and '_' that formats and parses wall-clock times."""

    pattern: str

    def write(self, wall: datetime) -> str:
        """Format a wall-clock time, dropping what the pattern does not show."""
        shown = {
            "yyyy": f"{wall.year:04}",
            "Q": str((wall.month - 1) // _MONTHS_PER_QUARTER + 1),
            "MM": f"{wall.month:02}",
            "dd": f"{wall.day:02}",
            "HH": f"{wall.hour:02}",
        }
        return "".join(shown.get(token, token) for token in _TOKEN.findall(self.pattern))

    def read(self, text: str) -> datetime | None:
        """Parse the start of the period that the text names; None if the text does not match."""
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
    """Build the pattern of a unit without separators, such as yyyyMMdd for days."""
    return TimeFormat("".join(FIELDS[unit]))


def format_in(text: str, unit: TimeUnit) -> TimeFormat | None:
    """Recognise the format of a value, such as yyyy-MM-dd in 2026-11-18; None if it is no time."""
    fields = FIELDS[unit]
    found = re.fullmatch(r"([-_]?)".join(_PATTERNS[each] for each in fields), text)
    if found is None:
        return None
    separators = [each for each in found.groups() if not each.isdigit()]
    pattern = "".join(map("".join, zip(fields, [*separators, ""], strict=True)))
    return TimeFormat(pattern) if TimeFormat(pattern).read(text) is not None else None


def custom_format(pattern: str, unit: TimeUnit) -> TimeFormat:
    """Check that a pattern shows exactly the fields of a unit, and build a format from it."""
    tokens = _TOKEN.findall(pattern)
    wanted = FIELDS[unit]
    if "".join(tokens) != pattern or tuple(t for t in tokens if t in _PATTERNS) != wanted:
        raise InvalidOptionError(
            f"'table.auto-partition.time-format' is {pattern[:80]!r}, which does not fit the "
            f"time unit {unit}.",
            hint=f"Use {', '.join(wanted)} in this order, with '-' or '_' as separators.",
        )
    _check_values_of(TimeFormat(pattern))
    return TimeFormat(pattern)


def _check_values_of(time_format: TimeFormat) -> None:
    try:
        check_partition_value(time_format.write(_EXAMPLE))
    except InvalidPartitionError as error:
        raise InvalidOptionError(
            f"'table.auto-partition.time-format' produces invalid partition values: {error.message}"
        ) from error


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = {TimeUnit.MONTH: 1, TimeUnit.QUARTER: 3, TimeUnit.YEAR: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoPartition:
    """When partitions are created and dropped; without a zone, the process's own zone is used."""

    enabled: bool
    key: str | None
    time_unit: TimeUnit
    time_format: TimeFormat
    is_custom_format: bool
    time_zone: tzinfo | None
    precreate_count: int
    retention_count: int

    @property
    def checks_values(self) -> bool:
        """Tell whether partition values must be times, even those created by hand."""
        return self.enabled or self.is_custom_format


def format_to_take(rules: AutoPartition, spec: PartitionSpec) -> TimeFormat | None:
    """Return the format of a new partition's value, if the table has none of its own yet."""
    if not rules.enabled or rules.is_custom_format:
        return None
    text = dict(spec)[time_key(rules, [name for name, _ in spec])]
    found = format_in(text, rules.time_unit)
    return None if found == rules.time_format else found


def partitions_to_create(
    rules: AutoPartition, *, keys: Sequence[str], existing: Collection[str], now_ms: int
) -> tuple[str, ...]:
    """Return the partitions to create for the current and the coming units, oldest first."""
    if not rules.enabled or len(keys) != 1:
        return ()
    due = (_start(rules, now_ms, units=ahead) for ahead in range(rules.precreate_count))
    # When clocks go back, one hour appears twice; the dictionary removes the duplicate.
    names = dict.fromkeys(rules.time_format.write(start) for start in due if start is not None)
    return tuple(name for name in names if name not in existing)


def partitions_to_drop(
    rules: AutoPartition, *, keys: Sequence[str], existing: Collection[str], now_ms: int
) -> tuple[str, ...]:
    """Return the partitions past retention, oldest first; names that are not times are kept."""
    if not rules.enabled or rules.retention_count < 0:
        return ()
    earliest = _start(rules, now_ms, units=-rules.retention_count)
    if earliest is None:
        return ()
    position = list(keys).index(time_key(rules, keys))
    expired = []
    for name in existing:
        start = _time_in(rules, name, position=position)
        if start is not None and start < earliest:
            expired.append((start, name))
    return tuple(name for _, name in sorted(expired))


def check_partition_time(rules: AutoPartition, *, spec: PartitionSpec, now_ms: int) -> None:
    """Check that a new partition's value is a time, and that it would not be dropped right away."""
    if not rules.checks_values:
        return
    key = time_key(rules, [name for name, _ in spec])
    text = dict(spec)[key]
    start = rules.time_format.read(text)
    if start is None:
        raise InvalidPartitionError(
            f"The value '{text}' of '{key}' is not a time.",
            hint=f"Use the form {rules.time_format.pattern}.",
        )
    if not rules.enabled or rules.retention_count < 0:
        return
    earliest = _start(rules, now_ms, units=-rules.retention_count)
    if earliest is not None and start < earliest:
        raise InvalidPartitionError(
            f"The partition '{text}' is already past its retention.",
            hint=f"The oldest partition that is kept is '{rules.time_format.write(earliest)}'.",
        )


def time_key(rules: AutoPartition, keys: Sequence[str]) -> str:
    """Pick the partition key that contains the time."""
    return rules.key or keys[0]


def _time_in(rules: AutoPartition, name: str, *, position: int) -> datetime | None:
    values = partition_values(name)
    if position >= len(values):
        return None
    # A table that took its format from a value may have empty partitions from before.
    formats = (rules.time_format, default_format(rules.time_unit))
    times = (each.read(values[position]) for each in formats)
    return next((time for time in times if time is not None), None)


def _start(rules: AutoPartition, now_ms: int, *, units: int) -> datetime | None:
    """Return the wall-clock start of the unit `units` from now; None if outside the calendar."""
    try:
        now = _EPOCH + timedelta(milliseconds=now_ms)
        if rules.time_unit is TimeUnit.HOUR:
            # Hours are counted in UTC, since a wall clock skips or repeats one when clocks change.
            wall = (now + timedelta(hours=units)).astimezone(rules.time_zone)
            return wall.replace(minute=0, second=0, microsecond=0, tzinfo=None)
        today = now.astimezone(rules.time_zone).date()
        return datetime.combine(_shifted(today, rules.time_unit, units), datetime.min.time())
    except (OverflowError, ValueError):
        return None


def _shifted(day: date, unit: TimeUnit, units: int) -> date:
    if unit is TimeUnit.DAY:
        return day + timedelta(days=units)
    months = _MONTHS[unit]
    ordinal = (day.year * 12 + day.month - 1) // months + units
    year, month = divmod(ordinal * months, 12)
    return date(year, month + 1, 1)
