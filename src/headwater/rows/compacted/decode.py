"""Compacted rows to Arrow columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.model.types import DataType
from headwater.rows.compacted.form_of import fields_of
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.row_read import Field, read_rows
from headwater.rows.row_bytes import RowBytes

_ORIGIN = Origin("")


@dataclass(frozen=True, slots=True, eq=False)
class RowDecoder:
    """Read rows of one schema; made once for many batches."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "RowDecoder":
        """Work out how to read columns of these types."""
        return cls(fields_of(types))

    def decode(self, rows: RowBytes, *, enforce_not_null: bool = True) -> list[pa.Array]:
        """Read all rows, or refuse the first that is malformed.

        Rows of a partial update hold nulls in columns that they leave alone, so whether a column
        declared NOT NULL may be null is the caller's to say. Nested fields always keep their word.
        """
        return read_rows(self.fields, rows, _ORIGIN, enforce_not_null=enforce_not_null)
