"""What one command prints, another takes."""

import io
import re

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import headwater
from headwater.cli.inputs import read_json_lines, read_pieces
from headwater.cli.output import Output, TableStyle, form_of, plain_texts
from headwater.cli.target import source_of
from tests.cli.commanding import Storage, ok
from tests.rows.strategies import data_types, record_batches, scalar_types, schemas

# Days that people have no name for are shown as numbers, and are not read back.
FAR_AWAY = re.compile(r"out of range|\d{5}-\d\d-|-\d{4}-\d\d-")
ROUNDS = 10


@st.composite
def tables(draw, types):
    schema = draw(schemas(types, columns_max=8))
    batch = draw(record_batches(schema))
    texts = [text for column in batch.columns for text in plain_texts(column).to_pylist()]
    assume(not any(FAR_AWAY.search(text or "") for text in texts))
    return schema, batch


@given(tables(data_types()))
def test_json_lines_hold_everything_that_a_row_holds(table):
    _, batch = table
    lines = form_of(Output.JSON, TableStyle()).rows(batch)

    read = read_json_lines(io.BytesIO(lines.encode()), batch.schema, name="lines")

    assert pa.Table.from_batches(read).equals(pa.Table.from_batches([batch]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables(data_types()))
def test_csv_holds_everything_that_a_row_holds(tmp_path, table):
    _, batch = table
    path = tmp_path / "rows.csv"
    path.write_text(form_of(Output.CSV, TableStyle()).rows(batch), newline="")

    pieces = read_pieces(source_of(path, given=None), batch.schema, batch_rows=100)

    assert pa.Table.from_batches([p.rows for p in pieces]).equals(pa.Table.from_batches([batch]))


@pytest.fixture(scope="module")
def client(server):
    with headwater.connect(server.address) as connected:
        yield connected


@settings(max_examples=ROUNDS, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables(scalar_types()), st.sampled_from(["json", "csv"]))
def test_what_scan_prints_append_takes(server, client, table, output):
    schema, batch = table
    storage = Storage(server.address)
    for name in ("from_here", "to_there"):
        client.drop_table(name, missing_ok=True)
        client.create_table(name, schema)
    client.table("from_here").append(batch)

    printed = ok(storage("scan", "from_here", "--output", output))
    ok(storage("append", "to_there", "--format", output, stdin=printed))

    rows = [client.table(name).scan().to_arrow() for name in ("from_here", "to_there")]
    assert rows[0].equals(rows[1])
    assert rows[0].num_rows == batch.num_rows


def test_a_table_of_all_types_goes_through_a_pipe(storage, name):
    kinds = [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)"),
        *("STRING", "DECIMAL(38, 18)", "DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(9)"),
        *("BINARY(2)", "BYTES", "ARRAY<INT>", "MAP<STRING, DOUBLE>", "ROW<a INT, b STRING>"),
    ]
    columns = [part for i, kind in enumerate(kinds) for part in ("--column", f"c{i}:{kind}")]
    row = (
        '{"c0":true,"c1":-1,"c2":2,"c3":3,"c4":9007199254740993,"c5":0.5,"c6":"NaN","c7":"abc",'
        '"c8":"\\"é\\n","c9":"12345678901234567890.000000000000000001","c10":"2026-03-01",'
        '"c11":"12:30:00.250","c12":"2026-03-01T12:30:00.000001",'
        '"c13":"2026-03-01T12:30:00.000000001Z","c14":"00ff","c15":"","c16":[1,null],'
        '"c17":[{"key":"x","value":1.5}],"c18":{"a":1,"b":null}}\n'
    )
    ok(storage("table", "create", name, *columns))

    ok(storage("append", name, stdin=row + "{}\n"))

    printed = ok(storage("scan", name, "--output", "json"))
    assert printed.splitlines()[0] == row.strip()
    ok(storage("append", name, stdin=printed))
    assert ok(storage("scan", name, "--output", "json")) == printed * 2
