"""Rows from files and from standard input."""

import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli import inputs as json_lines
from headwater.cli.inputs import read_pieces, schema_of_source
from headwater.cli.output import Output, TableStyle, form_of
from headwater.cli.target import STDIN, Format, source_of
from headwater.errors import InvalidValueError, RecordTooLargeError, RequestError
from tests.cases import cases

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("city", pa.string())])
ROWS = pa.record_batch({"id": [1, 2, 3], "city": ["Rome", None, ""]}, schema=SCHEMA)
LINES = '{"id":1,"city":"Rome"}\n{"id":2}\n\n{"city":"","id":3}'


def rows_of(path: Path, schema: pa.Schema = SCHEMA, *, given: Format | None = None) -> pa.Table:
    pieces = read_pieces(source_of(path, given=given), schema, batch_rows=2)
    return pa.Table.from_batches([piece.rows.select(schema.names) for piece in pieces], schema)


def write_parquet(path):
    pa.parquet.write_table(pa.Table.from_batches([ROWS]), path)


def write_stream(path):
    with pa.ipc.new_stream(str(path), SCHEMA) as writer:
        writer.write(ROWS)


WRITERS = {
    "rows.parquet": write_parquet,
    "rows.csv": lambda path: path.write_text('id,city\n1,Rome\n2,\n3,""\n'),
    "rows.csv.gz": lambda path: path.write_bytes(gzip.compress(b'city,id\nRome,1\n,2\n"",3\n')),
    "rows.jsonl": lambda path: path.write_text(LINES),
    "rows.ndjson.gz": lambda path: path.write_bytes(gzip.compress(LINES.encode())),
    "rows.feather": lambda path: pa.feather.write_feather(pa.Table.from_batches([ROWS]), path),
    "rows.arrows": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_come_out_of_every_format(tmp_path, name):
    WRITERS[name](tmp_path / name)

    assert rows_of(tmp_path / name).to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("name", WRITERS)
def test_a_batch_is_never_larger_than_asked_and_the_file_is_read_to_its_end(tmp_path, name):
    WRITERS[name](tmp_path / name)
    source = source_of(tmp_path / name, given=None)

    pieces = list(read_pieces(source, SCHEMA, batch_rows=2))

    assert [piece.rows.num_rows for piece in pieces] == [2, 1]
    assert 0 < pieces[-1].done_bytes <= source.size_bytes


@pytest.mark.parametrize(
    ("given", "text"), [(None, LINES), (Format.CSV, 'id,city\n1,Rome\n2,\n3,""\n')]
)
def test_standard_input_is_json_lines_unless_told_otherwise(monkeypatch, given, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    assert rows_of(STDIN, given=given).to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", '{"id":1}\n\n{"id":"x"}\n', "a.jsonl: line 3, column 'id': 'x'"),
        ("a.jsonl", '{"id":1}\n{"id":1\n', "a.jsonl: line 2: invalid JSON"),
        ("a.jsonl", '{"id":1}\n[2]\n', "a.jsonl: line 2: not a JSON object"),
        (
            "a.jsonl",
            '{"id":1}\n{"city":"x"}\n',
            "a.jsonl: line 2, column 'id': the column is NOT NULL",
        ),
        ("a.jsonl", '{"id":1,"town":2}\n', "a.jsonl: line 1: there is no column 'town'"),
        ("a.csv", "id,city\n1,a\n\n2.5,b\n", "a.csv: row 3, column 'id': '2.5'"),
        ("a.csv", "id,city\n1,a\n,b\n", "a.csv: row 3, column 'id': the column is NOT NULL"),
        ("a.csv", "id,city\n1,a\n2,b,c\n", "a.csv: CSV parse error: Row #3: Expected 2 columns"),
        ("a.csv", "id,town\n1,a\n", "a.csv: there is no column 'town'"),
        ("a.csv", "", "a.csv: Empty CSV file"),
        ("a.parquet", "nonsense", "a.parquet: "),
        ("a.arrow", "nonsense", "a.arrow: "),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)

    with pytest.raises(InvalidValueError) as caught:
        rows_of(tmp_path / name)

    assert told in str(caught.value)


def test_rows_before_a_bad_one_in_another_block_are_given_out_first(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK_BYTES", 64)
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*(f'{{"id":{n}}}' for n in range(100)), "bad"]))
    seen = []

    with pytest.raises(InvalidValueError, match="line 101"):
        seen.extend(
            piece.rows.num_rows
            for piece in read_pieces(source_of(path, given=None), SCHEMA, batch_rows=1000)
        )

    assert 90 < sum(seen) <= 100


@given(st.integers(1, 40), st.lists(st.integers(0, 10**9), max_size=30))
def test_blocks_of_any_size_give_the_same_lines(size, numbers):
    text = "".join(f"{n}\n" for n in numbers).encode()

    blocks = list(json_lines.blocks(ShortReads(text, size), name="x"))

    lines = [
        (number, int(line))
        for block in blocks
        for number, line in enumerate(block.text.split(b"\n"), block.line)
    ]
    assert lines == list(enumerate(numbers, 1))


class ShortReads:
    """Give no more than some bytes at a time, as a pipe does."""

    def __init__(self, text: bytes, size: int) -> None:
        self._stream, self._size = io.BytesIO(text), size

    def read(self, count: int) -> bytes:
        return self._stream.read(min(count, self._size))


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(json_lines, "LINE_BYTES_MAX", 100)

    with pytest.raises(RecordTooLargeError, match="line 1 is longer than 100 bytes"):
        list(json_lines.blocks(io.BytesIO(b"x" * 200), name="x"))


@cases(
    ("name", "given", "told"),
    [
        ("rows", None, "--format"),
        ("rows.txt.gz", None, "--format"),
        ("-", Format.PARQUET, "uncompressed files"),
        ("a.parquet.gz", None, "uncompressed files"),
    ],
)
def test_a_file_that_cannot_be_read_as_it_is_is_answered_with_a_way_out(name, given, told):
    with pytest.raises(RequestError, match=told):
        source_of(Path(name), given=given)


@pytest.mark.parametrize("name", WRITERS)
def test_a_schema_is_taken_from_every_format(tmp_path, name):
    WRITERS[name](tmp_path / name)

    schema = schema_of_source(source_of(tmp_path / name, given=None))

    assert {field.name: field.type for field in schema} == {"id": pa.int64(), "city": pa.string()}


def test_numbers_keep_all_their_digits_on_both_ways_of_reading():
    schema = pa.schema([("d", pa.decimal128(38, 10)), ("x", pa.float64())])
    lines = ['{"d":12345678901234567890.0123456789,"x":1}', '{"d":"0.1","x":"NaN"}']

    both = list(json_lines.read_json_lines(io.BytesIO("\n".join(lines).encode()), schema, name="x"))
    quick = list(json_lines.read_json_lines(io.BytesIO(lines[0].encode()), schema, name="x"))

    assert str(both[0].column("d")[0].as_py()) == "12345678901234567890.0123456789"
    assert both[0].slice(0, 1).equals(quick[0])


def test_a_table_with_one_column_keeps_its_nulls_in_csv(tmp_path):
    rows = pa.record_batch({"city": pa.array(["a", None, ""])})
    (tmp_path / "a.csv").write_text(form_of(Output.CSV, TableStyle()).rows(rows))

    assert rows_of(tmp_path / "a.csv", rows.schema).to_pylist() == rows.to_pylist()
