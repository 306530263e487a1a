"""Rows written under one schema, seen under another."""

from collections.abc import Sequence

import pyarrow as pa

from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.rows.compacted.decode import RowDecoder
from headwater.rows.compacted.encode import RowEncoder
from headwater.rows.compacted.keys import KeyEncoder


def adapted(columns: Sequence[pa.Array], written: Schema, wanted: Schema) -> pa.RecordBatch:
    """Return columns as another schema wants them, matched by id; new ones hold nulls."""
    count = len(columns[0])
    by_id = {
        column.column_id: array for column, array in zip(written.columns, columns, strict=True)
    }
    schema = arrow_schema(wanted)
    # A column keeps its type for life, so an array fits wherever its id is wanted.
    arrays = [
        by_id[column.column_id] if column.column_id in by_id else pa.nulls(count, field.type)
        for column, field in zip(wanted.columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def decoder_of(schema: Schema) -> RowDecoder:
    """Return the decoder for rows of a schema."""
    return RowDecoder.of([column.type for column in schema.columns])


def encoder_of(schema: Schema) -> RowEncoder:
    """Return the encoder for rows of a schema."""
    return RowEncoder.of([column.type for column in schema.columns])


def key_encoder_of(schema: Schema, key_columns: Sequence[str]) -> KeyEncoder:
    """Return the encoder for keys of these columns, in this order."""
    return KeyEncoder.of([schema.column(name).type for name in key_columns])
