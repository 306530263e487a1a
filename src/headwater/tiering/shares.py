"""What one task of a round copies of a bucket: a part of its log, or its rows at an offset."""

from dataclasses import dataclass
from typing import TypeAlias

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange


@dataclass(frozen=True, slots=True)
class LogShare:
    """Copy what the log of a bucket holds between two offsets."""

    bucket: LakeBucket
    offsets: OffsetRange


@dataclass(frozen=True, slots=True)
class StateShare:
    """Copy the rows that a bucket of a primary-key table has at an offset of its log."""

    bucket: LakeBucket
    at: int

    @property
    def offsets(self) -> OffsetRange:
        """Return the offsets that the rows stand for, which is all before that one."""
        return OffsetRange(0, self.at)


Share: TypeAlias = LogShare | StateShare
