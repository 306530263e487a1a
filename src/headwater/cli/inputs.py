"""Rows of files and of standard input as Arrow batches, never all of them at once."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from headwater.cli.target import STDIN, ByteStream, Format, InputFile, decompressed
from headwater.cli.values import scalar_text, typed
from headwater.errors import InvalidValueError, RecordTooLargeError, RequestError
from headwater.rows.compute import pc

# Columns read from a file, converted to rows that fit a table.

NAMES_SHOWN_MAX = 10


def checked_batch(
    columns: Mapping[str, pa.Array], schema: pa.Schema, *, place: Callable[[int], str]
) -> pa.RecordBatch:
    """Cast columns to their types; the error names the first invalid value or null."""
    fields = [schema.field(name) for name in columns]
    arrays = [_checked(columns[field.name], field, place) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def check_names(names: Sequence[str], schema: pa.Schema, *, place: str) -> None:
    """Reject a column that the table does not have."""
    if unknown := [name for name in names if name not in schema.names]:
        known = [*schema.names[:NAMES_SHOWN_MAX], *["…"][: len(schema) - NAMES_SHOWN_MAX]]
        raise InvalidValueError(
            f"{place}: there is no column '{unknown[0]}'.",
            hint=f"The columns are {', '.join(known)}.",
        )


def _checked(column: pa.Array, field: pa.Field, place: Callable[[int], str]) -> pa.Array:
    def place_of(row: int) -> str:
        return f"{place(row)}, column '{field.name}': "

    values = column if column.type == field.type else typed(column, field.type, place=place_of)
    if not field.nullable and values.null_count:
        row = pc.index(pc.is_null(values), pa.scalar(value=True)).as_py()
        raise InvalidValueError(f"{place_of(row)}the column is NOT NULL.")
    return values


# JSON lines as Arrow batches, a block of whole lines at a time.

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
    """A source of bytes."""

    def read(self, count: int) -> bytes:
        """Read up to so many bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, and the number of the first of them."""

    text: bytes
    line: int


def read_json_lines(source: Bytes, schema: pa.Schema, *, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of JSON lines with the columns that each block has."""
    for block in blocks(source, name=name):
        if block.text.strip():
            yield _rows_of(block, schema, name=name)


def blocks(source: Bytes, *, name: str) -> Iterator[Block]:
    """Cut bytes into blocks after the last line break in each."""
    rest, line = b"", 1
    while piece := source.read(BLOCK_BYTES):
        whole, end, rest = (rest + piece).rpartition(b"\n")
        if end:
            yield Block(whole, line)
            line += whole.count(b"\n") + 1
        if len(rest) > LINE_BYTES_MAX:
            raise RecordTooLargeError(f"{name}: line {line} is longer than {LINE_BYTES_MAX} bytes.")
    if rest:
        yield Block(rest, line)


def inferred_schema(source: Bytes, *, name: str) -> pa.Schema:
    """Infer the schema from the first block of JSON lines."""
    first = next(blocks(source, name=name), Block(b"", 1))
    if not first.text.strip():
        raise InvalidValueError(f"{name} has no rows to infer a schema from.")
    try:
        return _parsed(first.text, pa_json.ParseOptions()).schema
    except pa.ArrowInvalid as fault:
        raise InvalidValueError(f"{name}: {fault}") from None


def _rows_of(block: Block, schema: pa.Schema, *, name: str) -> pa.RecordBatch:
    """Parse a whole block at once; if that fails, parse line by line."""
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
    # A block of the reader must be the whole text: the schema is the same in all of it.
    reading = pa_json.ReadOptions(block_size=len(text) + 1)
    return pa_json.read_json(pa.BufferReader(text), parse_options=options, read_options=reading)


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _careful_rows(block: Block, schema: pa.Schema, *, name: str) -> pa.RecordBatch:
    """Parse line by line, so that the error names the line."""
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
        # Numbers stay text: a float would round what a decimal keeps.
        row = json.loads(line, parse_float=str, parse_int=str, parse_constant=str)
    except ValueError as fault:
        raise InvalidValueError(f"{place}: invalid JSON: {fault}.") from None
    if not isinstance(row, dict):
        raise InvalidValueError(f"{place}: not a JSON object.")
    check_names(list(row), schema, place=place)
    return row


CSV_BLOCK_BYTES = 4 * 1024 * 1024
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True, slots=True, eq=False)
class InputPiece:
    """Some rows, and how many bytes of the file were read so far."""

    rows: pa.RecordBatch
    done_bytes: int


def read_pieces(source: InputFile, schema: pa.Schema, *, batch_rows: int) -> Iterator[InputPiece]:
    """Yield the rows of a source; an error names the place."""
    try:
        for piece in _READERS[source.format](source, schema):
            for start in range(0, piece.rows.num_rows, batch_rows):
                yield InputPiece(piece.rows.slice(start, batch_rows), piece.done_bytes)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise InvalidValueError(f"{source.name}: {fault}.") from None


def schema_of_source(source: InputFile) -> pa.Schema:
    """Return the schema of a file, or infer it from the first rows."""
    if source.path == STDIN:
        raise RequestError("A schema can be taken from a file, not from standard input.")
    try:
        return _SCHEMAS[source.format](source)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise InvalidValueError(f"{source.name}: {fault}.") from None


def _parquet_pieces(source: InputFile, schema: pa.Schema) -> Iterator[InputPiece]:
    with pa_parquet.ParquetFile(source.path) as file:
        check_names(file.schema_arrow.names, schema, place=source.name)
        size, total, done = source.size_bytes or 0, file.metadata.num_rows, 0
        for batch in file.iter_batches():
            done += batch.num_rows
            yield InputPiece(batch, size * done // total)


def _arrow_pieces(source: InputFile, schema: pa.Schema) -> Iterator[InputPiece]:
    pieces = _arrow_file_pieces if _is_arrow_file(source) else _arrow_stream_pieces
    for piece in pieces(source):
        check_names(piece.rows.schema.names, schema, place=source.name)
        yield piece


def _arrow_file_pieces(source: InputFile) -> Iterator[InputPiece]:
    with pa.memory_map(str(source.path)) as mapped:
        file = pa.ipc.open_file(mapped)
        for i in range(file.num_record_batches):
            done_bytes = mapped.size() * (i + 1) // file.num_record_batches
            yield InputPiece(file.get_batch(i), done_bytes)


def _arrow_stream_pieces(source: InputFile) -> Iterator[InputPiece]:
    with closing(ByteStream(source)) as stream:
        for batch in pa.ipc.open_stream(decompressed(stream, source)):
            yield InputPiece(batch, stream.done_bytes)


def _is_arrow_file(source: InputFile) -> bool:
    if source.path == STDIN or source.compression is not None:
        return False
    with source.path.open("rb") as file:
        return file.read(len(_ARROW_FILE)) == _ARROW_FILE


def _json_pieces(source: InputFile, schema: pa.Schema) -> Iterator[InputPiece]:
    with closing(ByteStream(source)) as stream:
        lines = decompressed(stream, source)
        for batch in read_json_lines(lines, schema, name=source.name):
            yield InputPiece(batch, stream.done_bytes)


def _csv_pieces(source: InputFile, schema: pa.Schema) -> Iterator[InputPiece]:
    # Every column is read as text: Arrow's own conversion does not say which row is wrong.
    types = dict.fromkeys(schema.names, pa.string())
    row = 2  # the first row after the names
    with closing(ByteStream(source)) as stream:
        reader = _csv_reader(decompressed(stream, source), types)
        check_names(reader.schema.names, schema, place=source.name)
        for batch in reader:
            texts = dict(zip(batch.schema.names, batch.columns, strict=True))
            place = _row_place(source.name, row)
            yield InputPiece(checked_batch(texts, schema, place=place), stream.done_bytes)
            row += batch.num_rows


def _row_place(name: str, first: int) -> Callable[[int], str]:
    return lambda row: f"{name}: row {first + row}"


def _csv_reader(
    stream: ByteStream | pa.NativeFile, types: dict[str, pa.DataType]
) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        # With threads the number of a bad row would be unknown.
        read_options=pa_csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
        parse_options=pa_csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=len(types) != 1
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _parquet_schema(source: InputFile) -> pa.Schema:
    return pa_parquet.read_schema(source.path)


def _arrow_schema(source: InputFile) -> pa.Schema:
    if _is_arrow_file(source):
        with pa.memory_map(str(source.path)) as mapped:
            return pa.ipc.open_file(mapped).schema
    with closing(ByteStream(source)) as stream:
        return pa.ipc.open_stream(decompressed(stream, source)).schema


def _csv_schema(source: InputFile) -> pa.Schema:
    with closing(ByteStream(source)) as stream:
        return _csv_reader(decompressed(stream, source), {}).schema


def _json_schema(source: InputFile) -> pa.Schema:
    with closing(ByteStream(source)) as stream:
        return inferred_schema(decompressed(stream, source), name=source.name)


_READERS: dict[Format, Callable[[InputFile, pa.Schema], Iterator[InputPiece]]] = {
    Format.PARQUET: _parquet_pieces,
    Format.ARROW: _arrow_pieces,
    Format.CSV: _csv_pieces,
    Format.JSON: _json_pieces,
}
_SCHEMAS: dict[Format, Callable[[InputFile], pa.Schema]] = {
    Format.PARQUET: _parquet_schema,
    Format.ARROW: _arrow_schema,
    Format.CSV: _csv_schema,
    Format.JSON: _json_schema,
}
