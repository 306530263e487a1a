"""Which partitions a table should have at a given time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo

from headwater.config.choices import TimeUnit
from headwater.config.time_format import TimeFormat
from headwater.errors import InvalidPartitionError
from headwater.model.partition import PartitionSpec, partition_values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = {TimeUnit.MONTH: 1, TimeUnit.QUARTER: 3, TimeUnit.YEAR: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoPartition:
    """Hold how partitions come and go; no zone means the one of the process."""

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


def partitions_to_create(
    rules: AutoPartition, *, keys: Sequence[str], existing: Collection[str], now_ms: int
) -> tuple[str, ...]:
    """Return the names that are due from the current unit on, oldest first."""
    if not rules.enabled or len(keys) != 1:
        return ()
    due = (_start(rules, now_ms, units=ahead) for ahead in range(rules.precreate_count))
    # A clock that goes back an hour shows that hour twice, hence the dictionary.
    names = dict.fromkeys(rules.time_format.write(start) for start in due if start is not None)
    return tuple(name for name in names if name not in existing)


def partitions_to_drop(
    rules: AutoPartition, *, keys: Sequence[str], existing: Collection[str], now_ms: int
) -> tuple[str, ...]:
    """Return the names that are over the retention, oldest first; others are left alone."""
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
    """Check that a new partition's time can be read and would not be dropped at once."""
    if not rules.checks_values:
        return
    key = time_key(rules, [name for name, _ in spec])
    text = dict(spec)[key]
    start = rules.time_format.read(text)
    if start is None:
        raise InvalidPartitionError(
            f"The value '{text}' of '{key}' is not a time.",
            hint=f"Expected the form {rules.time_format.pattern}.",
        )
    if not rules.enabled or rules.retention_count < 0:
        return
    earliest = _start(rules, now_ms, units=-rules.retention_count)
    if earliest is not None and start < earliest:
        raise InvalidPartitionError(
            f"The partition '{text}' is too old to be kept.",
            hint=f"The earliest one is '{rules.time_format.write(earliest)}'.",
        )


def time_key(rules: AutoPartition, keys: Sequence[str]) -> str:
    """Return the partition key that holds the time."""
    return rules.key or keys[0]


def _time_in(rules: AutoPartition, name: str, *, position: int) -> datetime | None:
    values = partition_values(name)
    return rules.time_format.read(values[position]) if position < len(values) else None


def _start(rules: AutoPartition, now_ms: int, *, units: int) -> datetime | None:
    """Return the wall-clock start of the unit `units` after now; None is out of the calendar."""
    try:
        now = _EPOCH + timedelta(milliseconds=now_ms)
        if rules.time_unit is TimeUnit.HOUR:
            # Hours pass on the time line, not on the clock face, when clocks are changed.
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
