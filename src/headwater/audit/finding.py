"""What an audit says: what is wrong and what to do, and what was proven."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Tell what breaks a promise from what is only worth a look."""

    ERROR = "error"
    WARNING = "warning"


class Check(StrEnum):
    """Name one promise that an audit proves, in the words that people see."""

    OFFSETS = "offsets"
    CHECKSUMS = "checksums"
    STATE = "state"
    LOOKUPS = "lookups"
    TIERS = "tiers"
    BOUNDARY = "boundary"
    LAKE_ROWS = "lake rows"
    LAKE_FILES = "lake files"
    CURSORS = "cursors"
    FILES = "files"
    READABLE = "readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Say what is wrong, where it begins, and what to do about it."""

    check: Check
    severity: Severity = Severity.ERROR
    table: str | None = None
    partition: str | None = None
    bucket: int | None = None
    offset: int | None = None  # the first bad one
    message: str = ""
    remedy: str = ""

    @property
    def place(self) -> str:
        """Return where it is, from the largest to the smallest."""
        parts = [
            self.table,
            None if self.partition is None else f"partition {self.partition}",
            None if self.bucket is None else f"bucket {self.bucket}",
            None if self.offset is None else f"offset {self.offset}",
        ]
        return " ".join(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Say how much was looked at for one promise, be it good or bad."""

    check: Check
    table: str | None = None
    amount: int = 0
    unit: str = "rows"
    note: str = ""  # why it is proven only in part
