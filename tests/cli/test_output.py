"""The three forms of rows, as text that must not change by chance."""

import csv
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headwater.cli.output import (
    GAP,
    WIDTH_MIN,
    Output,
    TableStyle,
    document_text,
    fitted,
    form_of,
    table_of,
)
from tests.cases import cases

THINGS = pa.record_batch(
    {
        "id": pa.array([1, -20, None], pa.int64()),
        "price": pa.array([Decimal("1.50"), Decimal("-0.05"), None], pa.decimal128(10, 2)),
        "ratio": pa.array([0.1, float("nan"), None]),
        "city": pa.array(["Rome", 'a "b",\n\x1b[31mc', None]),
        "ok": pa.array([True, False, None]),
        "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "tags": pa.array([["x", None], [], None], pa.list_(pa.string())),
    }
)
TIMES = pa.record_batch(
    {
        "day": pa.array([date(2026, 3, 1), None]),
        "at": pa.array([time(12, 30), None], pa.time32("ms")),
        "seen": pa.array([datetime(2026, 3, 1, 12, 30, 0, 250000), None], pa.timestamp("us")),
        "sent": pa.array(
            [datetime(2026, 3, 1, 12, 30, tzinfo=UTC), None], pa.timestamp("s", "UTC")
        ),
    }
)
TABLES = r"""
  id  price  ratio  city               ok     raw   tags
────  ─────  ─────  ─────────────────  ─────  ────  ──────────
   1   1.50    0.1  Rome               true   00ff  ["x",null]
 -20  -0.05    nan  a "b",\n\x1b[31mc  false        []
NULL   NULL   NULL  NULL               NULL   NULL  NULL
day         at            seen                        sent
──────────  ────────────  ──────────────────────────  ────────────────────
2026-03-01  12:30:00.000  2026-03-01T12:30:00.250000  2026-03-01T12:30:00Z
NULL        NULL          NULL                        NULL
"""
JSONS = r"""
{"id":1,"price":"1.50","ratio":0.1,"city":"Rome","ok":true,"raw":"00ff","tags":["x",null]}
{"id":-20,"price":"-0.05","ratio":"NaN","city":"a \"b\",\n\u001b[31mc","ok":false,"raw":"","tags":[]}
{"id":null,"price":null,"ratio":null,"city":null,"ok":null,"raw":null,"tags":null}
{"day":"2026-03-01","at":"12:30:00.000","seen":"2026-03-01T12:30:00.250000","sent":"2026-03-01T12:30:00Z"}
{"day":null,"at":null,"seen":null,"sent":null}
"""  # noqa: E501
CSVS = """
id,price,ratio,city,ok,raw,tags
1,1.50,0.1,Rome,true,00ff,"[""x"",null]"
-20,-0.05,nan,"a ""b"",
\x1b[31mc",false,"",[]
,,,,,,
day,at,seen,sent
2026-03-01,12:30:00.000,2026-03-01T12:30:00.250000,2026-03-01T12:30:00Z
,,,
"""


@cases(("output", "golden"), [(Output.TABLE, TABLES), (Output.JSON, JSONS), (Output.CSV, CSVS)])
def test_rows_look_as_they_always_did(output, golden):
    shown = "".join(form_of(output, TableStyle()).rows(batch) for batch in (THINGS, TIMES))

    assert shown == golden.removeprefix("\n")


def test_every_line_of_json_is_json_by_itself():
    lines = form_of(Output.JSON, TableStyle()).rows(THINGS).splitlines()

    assert [list(json.loads(line)) for line in lines] == [THINGS.schema.names] * 3


def test_other_programs_read_the_csv():
    text = form_of(Output.CSV, TableStyle()).rows(THINGS)

    rows = list(csv.DictReader(io.StringIO(text)))

    assert rows[1]["city"] == 'a "b",\n\x1b[31mc'
    assert rows[0]["tags"] == '["x",null]'


@cases(("output", "head_lines"), [("table", 2), ("csv", 1), ("json", 0)])
def test_the_head_stands_once_above_all_batches(output, head_lines):
    form = form_of(Output(output), TableStyle())

    shown = form.rows(TIMES) + form.rows(TIMES) + form.head(TIMES.schema)

    lines = shown.splitlines()
    assert len(lines) == head_lines + 4
    assert lines[head_lines : head_lines + 2] == lines[-2:]


@cases(("output", "head"), [("table", "n\n─\n"), ("csv", "n\n"), ("json", "")])
def test_no_rows_leave_the_head_alone(output, head):
    assert form_of(Output(output), TableStyle()).head(pa.schema([("n", pa.int64())])) == head


def test_a_table_fits_the_terminal_and_cuts_no_numbers():
    wide = pa.record_batch({"n": pa.array([10**18]), "text": ["x" * 500], "more": ["y" * 30]})

    lines = form_of(Output.TABLE, TableStyle(width=60)).rows(wide).splitlines()

    assert max(map(len, lines)) == 60
    assert str(10**18) in lines[2]
    assert "x…" in lines[2]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=9), st.integers(1, 200))
def test_columns_become_narrower_only_as_far_as_they_must(wanted, width):
    widths = fitted(wanted, [False] * len(wanted), width=width)

    total = sum(widths) + len(GAP) * (len(widths) - 1)
    assert all(
        min(WIDTH_MIN, wish) <= got <= wish for wish, got in zip(wanted, widths, strict=True)
    )
    assert total <= width or all(got <= WIDTH_MIN for got in widths)
    assert widths == wanted or total >= width


@cases(("width", "shown"), [(None, "Constantinople  12345"), (80, "Con…  12345")])
def test_later_rows_that_are_wider_are_cut_on_terminals_and_whole_elsewhere(width, shown):
    form = form_of(Output.TABLE, TableStyle(width=width))
    form.rows(pa.record_batch({"city": ["Rome"], "n": [1]}))

    later = form.rows(pa.record_batch({"city": ["Constantinople"], "n": [12345]}))

    assert later == f"{shown}\n"


def test_wide_letters_take_two_places():
    rows = pa.record_batch({"city": ["東京", "Rome"], "n": [1, 2]})

    lines = form_of(Output.TABLE, TableStyle()).rows(rows).splitlines()

    assert lines[2:] == ["東京  1", "Rome  2"]


def test_null_is_dim_on_a_terminal_so_that_it_differs_from_the_word():
    rows = pa.record_batch({"city": ["NULL", None]})

    lines = form_of(Output.TABLE, TableStyle(styled=True)).rows(rows).splitlines()

    assert lines[2:] == ["NULL", "\x1b[2mNULL\x1b[0m"]


@cases(
    ("output", "text"),
    [
        (Output.TABLE, 'name  clicks\nkeys  ["id"]\nnote  NULL\n'),
        (Output.JSON, '{"name":"clicks","keys":["id"],"note":null}\n'),
        (Output.CSV, 'name,keys,note\nclicks,"[""id""]",\n'),
    ],
)
def test_one_thing_is_a_document(output, text):
    document = {"name": "clicks", "keys": ["id"], "note": None}

    assert document_text(document, output=output) == text


def test_documents_become_rows_in_the_order_of_the_columns():
    columns = {"bucket": pa.int32(), "spec": pa.string()}

    table = table_of([{"spec": {"day": "1"}, "bucket": 3, "other": 1}, {}], columns=columns)

    assert table.to_pylist() == [
        {"bucket": 3, "spec": '{"day":"1"}'},
        {"bucket": None, "spec": None},
    ]
