"""JSON lines as Arrow batches, a block of whole lines at a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.json as pa_json

from headwater.cli.rows_checked import check_names, checked_batch
from headwater.cli.typed import scalar_text
from headwater.errors import InvalidValueError, RecordTooLargeError

BLOCK_BYTES = 4 * 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
_QUICK = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_timestamp,
)


class Bytes(Protocol):
    """Give bytes in order."""

    def read(self, count: int) -> bytes:
        """Return up to so many bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """Hold whole lines and the number of the first of them."""

    text: bytes
    line: int


def read_json_lines(source: Bytes, schema: pa.Schema, *, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of JSON lines with the columns that each block has."""
    for block in blocks(source, name=name):
        if block.text.strip():
            yield _rows_of(block, schema, name=name)


def blocks(source: Bytes, *, name: str) -> Iterator[Block]:
    """Cut bytes into blocks behind the last end of a line in each."""
    rest, line = b"", 1
    while piece := source.read(BLOCK_BYTES):
        whole, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            yield Block(whole, line)
            line += whole.count(b"\n") + 1
        if len(rest) > LINE_BYTES_MAX:
            raise RecordTooLargeError(f"{name}: line {line} is over {LINE_BYTES_MAX} bytes.")
    if rest:
        yield Block(rest, line)


def inferred_schema(source: Bytes, *, name: str) -> pa.Schema:
    """Return the schema that the first block of JSON lines suggests."""
    first = next(blocks(source, name=name), Block(b"", 1))
    if not first.text.strip():
        raise InvalidValueError(f"{name} holds no rows to take a schema from.")
    try:
        return _parsed(first.text, pa_json.ParseOptions()).schema
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(f"{name}: {fault}") from None


def _rows_of(block: Block, schema: pa.Schema, *, name: str) -> pa.RecordBatch:
    """Take the quick way over a whole block; where it fails, look at every line."""
    if not any(pa.types.is_nested(field.type) for field in schema):
        quick = _quick_rows(block, schema)
        if quick is not None:
            return quick
    return _careful_rows(block, schema, name=name)


def _quick_rows(block: Block, schema: pa.Schema) -> pa.RecordBatch | None:
    reading = pa.schema([(field.name, _read_as(field.type)) for field in schema])
    options = pa_json.ParseOptions(explicit_schema=reading, unexpected_field_behavior="error")
    try:
        table = _parsed(block.text, options)
        return checked_batch({n: _combined(table[n]) for n in schema.names}, schema, place=str)
    except (pa.ArrowException, InvalidValueError):
        return None


def _read_as(kind: pa.DataType) -> pa.DataType:
    return kind if any(is_kind(kind) for is_kind in _QUICK) else pa.string()


def _parsed(text: bytes, options: pa_json.ParseOptions) -> pa.Table:
    # A block of the reader must hold the whole text: the schema is the same in all of it.
    reading = pa_json.ReadOptions(block_size=len(text) + 1)
    return pa_json.read_json(pa.BufferReader(text), parse_options=options, read_options=reading)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _careful_rows(block: Block, schema: pa.Schema, *, name: str) -> pa.RecordBatch:
    """Read line by line, so that a line that is wrong can be named."""
    rows: dict[int, dict[str, object]] = {}
    for number, line in enumerate(block.text.split(b"\n"), block.line):
        if line.strip():
            rows[number] = _object_of(line, schema, place=f"{name}: line {number}")
    numbers = list(rows)
    return checked_batch(
        {
            field.name: pa.array(
                [scalar_text(row.get(field.name)) for row in rows.values()], pa.string()
            )
            for field in schema
        },
        schema,
        place=lambda row: f"{name}: line {numbers[row]}",
    )


def _object_of(line: bytes, schema: pa.Schema, *, place: str) -> dict[str, object]:
    try:
        # Numbers stay texts: a float would round what a decimal keeps.
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
    except ValueError as fault:
        raise InvalidValueError(f"{place}: this is no JSON: {fault}.") from None
    if not isinstance(row, dict):
        raise InvalidValueError(f"{place}: this is no JSON object.")
    check_names(list(row), schema, place=place)
    return row
