"""Rows of files and of standard input as Arrow batches, never all of them at once."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from headwater.cli.json_lines import inferred_schema, read_json_lines
from headwater.cli.rows_checked import check_names, checked_batch
from headwater.cli.sources import STDIN, ByteStream, Format, Source, decompressed
from headwater.errors import InvalidValueError, RequestError

CSV_BLOCK_BYTES = 4 * 1024 * 1024
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Hold some rows, and how many bytes of the file were read to get so far."""

    rows: pa.RecordBatch
    done_bytes: int


def read_pieces(source: Source, schema: pa.Schema, *, batch_rows: int) -> Iterator[Piece]:
    """Yield the rows of a source; what cannot be read is an error that names the place."""
    try:
        for piece in _READERS[source.format](source, schema):
            for start in range(0, piece.rows.num_rows, batch_rows):
                yield Piece(piece.rows.slice(start, batch_rows), piece.done_bytes)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise InvalidValueError(f"{source.name}: {fault}.") from None


def schema_of_source(source: Source) -> pa.Schema:
    """Return the schema that a file has, or that its first rows suggest."""
    if source.path == STDIN:
        raise RequestError("A schema is taken from a file, not from standard input.")
    try:
        return _SCHEMAS[source.format](source)
    except (pa.ArrowException, UnicodeDecodeError) as fault:
        raise InvalidValueError(f"{source.name}: {fault}.") from None


def _parquet_pieces(source: Source, schema: pa.Schema) -> Iterator[Piece]:
    with pa_parquet.ParquetFile(source.path) as file:
        check_names(file.schema_arrow.names, schema, place=source.name)
        size, total, done = source.size_bytes or 0, file.metadata.num_rows, 0
        for batch in file.iter_batches():
            done += batch.num_rows
            yield Piece(batch, size * done // total)


def _arrow_pieces(source: Source, schema: pa.Schema) -> Iterator[Piece]:
    pieces = _arrow_file_pieces if _is_arrow_file(source) else _arrow_stream_pieces
    for piece in pieces(source):
        check_names(piece.rows.schema.names, schema, place=source.name)
        yield piece


def _arrow_file_pieces(source: Source) -> Iterator[Piece]:
    with pa.memory_map(str(source.path)) as mapped:
        file = pa.ipc.open_file(mapped)
        for i in range(file.num_record_batches):
            done_bytes = mapped.size() * (i + 1) // file.num_record_batches
            yield Piece(file.get_batch(i), done_bytes)


def _arrow_stream_pieces(source: Source) -> Iterator[Piece]:
    with closing(ByteStream(source)) as stream:
        for batch in pa.ipc.open_stream(decompressed(stream, source)):
            yield Piece(batch, stream.done_bytes)


def _is_arrow_file(source: Source) -> bool:
    if source.path == STDIN or source.compression is not None:
        return False
    with source.path.open("rb") as file:
        return file.read(len(_ARROW_FILE)) == _ARROW_FILE


def _json_pieces(source: Source, schema: pa.Schema) -> Iterator[Piece]:
    with closing(ByteStream(source)) as stream:
        lines = decompressed(stream, source)
        for batch in read_json_lines(lines, schema, name=source.name):
            yield Piece(batch, stream.done_bytes)


def _csv_pieces(source: Source, schema: pa.Schema) -> Iterator[Piece]:
    # Every column is read as text: Arrow's own conversion does not tell which row is wrong.
    types = dict.fromkeys(schema.names, pa.string())
    row = 2  # the first row behind the names
    with closing(ByteStream(source)) as stream:
        reader = _csv_reader(decompressed(stream, source), types)
        check_names(reader.schema.names, schema, place=source.name)
        for batch in reader:
            texts = dict(zip(batch.schema.names, batch.columns, strict=True))
            place = _row_place(source.name, row)
            yield Piece(checked_batch(texts, schema, place=place), stream.done_bytes)
            row += batch.num_rows


def _row_place(name: str, first: int) -> Callable[[int], str]:
    return lambda row: f"{name}: row {first + row}"


def _csv_reader(
    stream: ByteStream | pa.NativeFile, types: dict[str, pa.DataType]
) -> pa_csv.CSVStreamingReader:
    return pa_csv.open_csv(
        stream,
        # Threads would not know the number of a row that is wrong.
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


def _parquet_schema(source: Source) -> pa.Schema:
    return pa_parquet.read_schema(source.path)


def _arrow_schema(source: Source) -> pa.Schema:
    if _is_arrow_file(source):
        with pa.memory_map(str(source.path)) as mapped:
            return pa.ipc.open_file(mapped).schema
    with closing(ByteStream(source)) as stream:
        return pa.ipc.open_stream(decompressed(stream, source)).schema


def _csv_schema(source: Source) -> pa.Schema:
    with closing(ByteStream(source)) as stream:
        return _csv_reader(decompressed(stream, source), {}).schema


def _json_schema(source: Source) -> pa.Schema:
    with closing(ByteStream(source)) as stream:
        return inferred_schema(decompressed(stream, source), name=source.name)


_READERS: dict[Format, Callable[[Source, pa.Schema], Iterator[Piece]]] = {
    Format.PARQUET: _parquet_pieces,
    Format.ARROW: _arrow_pieces,
    Format.CSV: _csv_pieces,
    Format.JSON: _json_pieces,
}
_SCHEMAS: dict[Format, Callable[[Source], pa.Schema]] = {
    Format.PARQUET: _parquet_schema,
    Format.ARROW: _arrow_schema,
    Format.CSV: _csv_schema,
    Format.JSON: _json_schema,
}
