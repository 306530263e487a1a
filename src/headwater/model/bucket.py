"""A bucket of a table: the unit that has one log, one order and one writer at a time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableBucket:
    """Identify one bucket of a table, or of one partition of it."""

    table_id: int
    bucket: int
    partition_id: int | None = None

    def __str__(self) -> str:
        if self.partition_id is None:
            return f"table {self.table_id} bucket {self.bucket}"
        return f"table {self.table_id} partition {self.partition_id} bucket {self.bucket}"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Hold the half-open range of offsets `[start, end)`."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end
