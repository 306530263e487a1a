"""Rows of a primary-key table on their way into bytes: keys, and rows with all columns."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.client.writing.target_columns import check_unnumbered
from headwater.config.choices import KvFormat
from headwater.config.options import KV_FORMAT
from headwater.errors import NotPrimaryKeyTableError, UnsupportedError
from headwater.model.arrow import arrow_schema
from headwater.model.table import TableInfo
from headwater.rows.evolution import encoder_of
from headwater.rows.key_formats import primary_key_encoder
from headwater.rows.row_bytes import RowBytes


class KvEncoding:
    """Encode rows of one table; made once for many batches."""

    def __init__(self, table: TableInfo) -> None:
        _check(table)
        self._schema = table.schema
        self._arrow = arrow_schema(table.schema)
        self.key_names = table.descriptor.physical_primary_key
        self.key_encoder = primary_key_encoder(table.descriptor)
        self._rows = encoder_of(table.schema)

    def keys(self, batch: pa.RecordBatch) -> RowBytes:
        """Return the key of every row."""
        return self.key_encoder.encode([batch.column(name) for name in self.key_names])

    def rows(self, batch: pa.RecordBatch, columns: Sequence[str] | None) -> RowBytes:
        """Return all columns of every row; those that are not written hold nulls."""
        names = set(batch.schema.names if columns is None else columns)
        if columns is None:
            check_unnumbered(batch, self._schema)
        filled = [
            batch.column(field.name)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in self._arrow
        ]
        return self._rows.encode(filled)


def _check(table: TableInfo) -> None:
    if not table.is_keyed:
        raise NotPrimaryKeyTableError(
            f"{table.path} has no primary key, so rows can only be appended to it.",
            hint="Append them.",
        )
    if KV_FORMAT.required(table.descriptor.properties) is not KvFormat.COMPACTED:
        raise UnsupportedError(f"{table.path} keeps its rows in another format than compacted.")
