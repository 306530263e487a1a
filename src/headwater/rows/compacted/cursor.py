"""One reading position per row, which all move on together."""

from typing import cast

import numpy as np

from headwater.rows.compacted.forms import Numbers
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.varint import INT_BYTES_MAX, LONG_BYTES_MAX, read_varints
from headwater.rows.row_bytes import (
    PADDING,
    Bytes,
    Longs,
    RowBytes,
    Words,
    overlapping,
    overlapping_words,
)

_LENGTH_MAX = 2**31 - 1


class Cursor:
    """Read the same kind of value from every row; no position ever leaves its row for long.

    A read may look up to 16 bytes past the end of a row, which the padding allows, and is
    refused before the next one.
    """

    __slots__ = ("at", "data", "ends", "origin", "words")

    def __init__(self, data: Bytes, *, at: Longs, ends: Longs, origin: Origin) -> None:
        self.data = data
        self.words: Words = overlapping_words(data)
        self.at = at
        self.ends = ends
        self.origin = origin

    @classmethod
    def over(cls, rows: RowBytes, origin: Origin) -> "Cursor":
        """Return a cursor at the start of each row."""
        if len(rows):
            assert int(rows.ends.max()) + PADDING <= len(rows.data), "row bytes without padding"
        return cls(rows.data, at=rows.starts, ends=rows.ends, origin=origin)

    def picked(self, indices: Longs) -> "Cursor":
        """Return a cursor over some of the rows."""
        origin = self.origin.picked(indices)
        return Cursor(self.data, at=self.at[indices], ends=self.ends[indices], origin=origin)

    def bytes_after(self, width: int) -> None:
        """Pass over bytes of a fixed number."""
        self._move(self.at + width)

    def fixed(self, dtype: np.dtype[np.generic]) -> Numbers:
        """Read a number of fixed width from each row."""
        numbers = overlapping(self.data, dtype)[self.at]
        self._move(self.at + dtype.itemsize)
        return numbers

    def ints(self) -> Words:
        """Read a varint of at most 32 bits from each row."""
        return self._varints(INT_BYTES_MAX)

    def longs(self) -> Longs:
        """Read a varint of 64 bits from each row."""
        return cast("Longs", self._varints(LONG_BYTES_MAX).view(np.int64))

    def spans(self) -> RowBytes:
        """Read a string that starts with its length from each row."""
        lengths = self.ints().view(np.int64)
        starts = self.at
        self.origin.refuse(lengths > _LENGTH_MAX, "has a negative length")
        self._move(starts + lengths)
        return RowBytes(self.data, starts, self.at)

    def finish(self) -> None:
        """Refuse rows with bytes that nobody has read."""
        self.origin.refuse(self.at != self.ends, "is followed by bytes of no column")

    def _varints(self, bytes_max: int) -> Words:
        found = read_varints(self.words, self.at, bytes_max=bytes_max)
        self.origin.refuse(found.too_long, "has a varint that does not end")
        self._move(found.ends)
        return found.values

    def _move(self, to: Longs) -> None:
        self.origin.refuse(to > self.ends, "runs past the end of the row")
        self.at = to
