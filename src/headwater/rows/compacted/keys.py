"""Keys: compacted rows of the key columns, without null bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import InvalidValueError
from headwater.model.types import DataType
from headwater.rows.compacted.cursor import Cursor
from headwater.rows.compacted.form_of import fields_of
from headwater.rows.compacted.origin import Origin
from headwater.rows.compacted.row_read import Field, pass_field, read_all
from headwater.rows.compacted.row_write import write_rows
from headwater.rows.row_bytes import Longs, RowBytes

_ORIGIN = Origin("key")


@dataclass(frozen=True, slots=True, eq=False)
class KeyEncoder:
    """Write keys of one schema; made once for many batches."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "KeyEncoder":
        """Work out how to write key columns of these types."""
        return cls(fields_of(types))

    def encode(self, columns: Sequence[pa.Array]) -> RowBytes:
        """Write one key per element of the columns, none of which may be null."""
        for field, column in zip(self.fields, columns, strict=True):
            if column.null_count:
                raise InvalidValueError(
                    f"{field.name} of a key holds {column.null_count} nulls.",
                    hint="Write a value for every primary-key column in every row.",
                )
        return write_rows([field.form for field in self.fields], columns, with_null_bits=False)


@dataclass(frozen=True, slots=True, eq=False)
class KeyDecoder:
    """Read keys of one schema; made once for many batches."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, types: Sequence[DataType]) -> "KeyDecoder":
        """Work out how to read key columns of these types."""
        return cls(fields_of(types))

    def decode(self, keys: RowBytes) -> list[pa.Array]:
        """Read all keys, or refuse the first that is malformed."""
        return read_all(self.fields, keys, _ORIGIN)

    def prefix_ends(self, keys: RowBytes, count: int) -> Longs:
        """Return the position just after the first `count` fields of each key."""
        if not len(keys):
            return keys.starts
        cursor = Cursor.over(keys, _ORIGIN)
        for field in self.fields[:count]:
            cursor.origin = _ORIGIN.named(f"key.{field.name}")
            pass_field(field.form, cursor)
        return cursor.at
