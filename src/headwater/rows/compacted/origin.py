"""Where values come from, to be named when they are refused."""

from dataclasses import dataclass

import numpy as np

from headwater.errors import CorruptBatchError, InvalidValueError
from headwater.rows.row_bytes import Longs, Mask

_HINT = "The client that wrote the rows is at fault; check that its schema is the table's."


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Know the field and the rows that values come from."""

    field: str
    rows: Longs | None = None

    def refuse(self, bad: Mask | None, why: str) -> None:
        """Raise if any value is bad, naming the first."""
        if bad is not None and np.count_nonzero(bad):
            raise self.error(int(np.argmax(bad)), why)

    def refuse_nulls(self, nulls: Mask | None) -> None:
        """Raise if any value is missing where none may be, naming the first."""
        if nulls is not None and np.count_nonzero(nulls):
            row = self._row(int(np.argmax(nulls)))
            raise InvalidValueError(
                f"Row {row} is not allowed: {self.field} is null, but it is declared NOT NULL.",
                hint="Write a value in every row, or let the column be null.",
            )

    def error(self, index: int, why: str) -> CorruptBatchError:
        """Return the error for one bad value."""
        message = f"Row {self._row(index)} is malformed: {self.field} {why}."
        return CorruptBatchError(message, hint=_HINT)

    def _row(self, index: int) -> int:
        return index if self.rows is None else int(self.rows[index])

    def picked(self, indices: Longs) -> "Origin":
        """Return the origin of some of the values, or of values that belong to them."""
        return Origin(self.field, indices if self.rows is None else self.rows[indices])

    def named(self, field: str) -> "Origin":
        """Return the origin of another field of the same rows."""
        return Origin(field, self.rows)
