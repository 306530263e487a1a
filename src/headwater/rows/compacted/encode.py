"""Arrow columns to compacted rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.types import DataType
from headwater.rows.compacted.form_of import form_of
from headwater.rows.compacted.forms import Form
from headwater.rows.compacted.row_write import write_rows
from headwater.rows.row_bytes import RowBytes


@dataclass(frozen=True, slots=True, eq=False)
class RowEncoder:
    """Write rows of one schema; made once for many batches."""

    forms: tuple[Form, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "RowEncoder":
        """Work out how to write columns of these types."""
        return cls(tuple(form_of(each) for each in types))

    def encode(self, columns: Sequence[pa.Array]) -> RowBytes:
        """Write one row per element of the columns, which all have the same length."""
        return write_rows(self.forms, columns, with_null_bits=True)
