"""Rows into a table and out of it, by command."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.commanding import ok

COLUMNS = ("--column", "id:BIGINT", "--column", "city:STRING", "--column", "amount:DOUBLE")
KEYED = (*COLUMNS, "--primary-key", "id")
LINES = '{"id":1,"city":"Rome","amount":1.5}\n{"id":2,"city":null,"amount":20}\n'
ROWS = [{"id": 1, "city": "Rome", "amount": 1.5}, {"id": 2, "city": None, "amount": 20.0}]
GOLDEN = {
    "table": "id  city  amount\n──  ────  ──────\n 1  Rome     1.5\n 2  NULL      20\n",
    "json": '{"id":1,"city":"Rome","amount":1.5}\n{"id":2,"city":null,"amount":20}\n',
    "csv": "id,city,amount\n1,Rome,1.5\n2,,20\n",
}


def files(folder):
    """Write the rows in all formats."""
    pa.parquet.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet")
    (folder / "a.csv").write_text(GOLDEN["csv"])
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
    with pa.ipc.new_stream(str(folder / "a.arrows"), pa.Table.from_pylist(ROWS).schema) as writer:
        writer.write_table(pa.Table.from_pylist(ROWS))
    return [str(folder / name) for name in ("a.parquet", "a.csv", "a.jsonl.gz", "a.arrows")]


def test_files_of_all_formats_are_appended_in_order(storage, name, tmp_path):
    ok(storage("table", "create", name, *COLUMNS))

    told = ok(storage("append", name, *files(tmp_path), "--batch-rows", "1"))

    assert told == f"8 rows appended to fluss.{name}.\n"
    assert storage.rows("scan", name) == ROWS * 4
    assert ok(storage("count", name)) == "8\n"


@pytest.mark.parametrize("arguments", [(), ("-",), ("--format", "json", "-")])
def test_rows_come_from_standard_input(storage, name, arguments):
    ok(storage("table", "create", name, *COLUMNS))

    told = ok(storage("append", name, *arguments, "--output", "json", stdin=LINES))

    assert json.loads(told) == {"table": f"fluss.{name}", "rows": 2, "status": "appended"}
    assert storage.rows("scan", name) == ROWS


@pytest.mark.parametrize("output", GOLDEN)
def test_a_scan_looks_as_it_always_did(storage, name, output):
    ok(storage("table", "create", name, *KEYED))
    ok(storage("upsert", name, stdin=LINES))

    assert ok(storage("scan", name, "--output", output)) == GOLDEN[output]


def test_a_scan_takes_some_columns_and_some_rows(storage, name):
    ok(storage("table", "create", name, *COLUMNS))
    ok(storage("append", name, stdin=LINES * 5))

    wanted = ("--columns", "amount,id", "--where", "amount > 1.5", "--where", "city is null")

    assert storage.rows("scan", name, *wanted) == [{"amount": 20.0, "id": 2}] * 5
    assert len(storage.rows("scan", name, "--limit", "3")) == 3
    assert ok(storage("scan", name, "--where", "id > 9")) == "id  city  amount\n──  ────  ──────\n"


def test_some_columns_are_updated_and_some_rows_deleted(storage, name, tmp_path):
    ok(storage("table", "create", name, *KEYED))
    ok(storage("upsert", name, stdin=LINES))
    (tmp_path / "a.csv").write_text("id,amount,city\n1,7,ignored\n")
    (tmp_path / "gone.jsonl").write_text('{"id":2,"city":"whatever"}\n')

    ok(storage("upsert", name, str(tmp_path / "a.csv"), "--columns", "id,amount"))
    told = ok(storage("upsert", name, str(tmp_path / "gone.jsonl"), "--delete"))

    assert told == f"1 row deleted from fluss.{name}.\n"
    assert storage.rows("scan", name) == [{"id": 1, "city": "Rome", "amount": 7.0}]


def test_rows_are_looked_up_by_arguments_and_by_json_lines(storage, name):
    ok(storage("table", "create", name, *KEYED))
    ok(storage("upsert", name, stdin=LINES))

    assert storage.rows("lookup", name, "id=2", "id=1", "id=3") == ROWS[::-1]
    assert storage.rows("lookup", name, "id=1", "--columns", "city") == [{"city": "Rome"}]
    told = storage("lookup", name, "--output", "json", stdin='{"id":1}\n{"id":2}\n')
    assert [json.loads(line) for line in ok(told).splitlines()] == ROWS


def test_the_value_of_a_key_of_one_column_needs_no_name(storage, name):
    ok(storage("table", "create", name, *KEYED))
    ok(storage("upsert", name, stdin=LINES))

    assert storage.rows("lookup", name, "2", "1") == ROWS[::-1]

    ok(storage("table", "create", f"{name}b", *COLUMNS, "--primary-key", "id,city"))
    refused = storage("lookup", f"{name}b", "1")
    assert refused.exit_code == 3
    assert "Write the key as id=VALUE city=VALUE" in refused.stderr


def test_a_key_that_is_not_there_is_missing(storage, name):
    ok(storage("table", "create", name, *KEYED))

    result = storage("lookup", name, "id=1", "--output", "json")

    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == f"headwater: fluss.{name} has no row with this key.\n"


def test_rows_are_looked_up_by_the_beginning_of_their_keys(storage, name):
    keys = ("--primary-key", "city,id", "--bucket-by", "city")
    ok(storage("table", "create", name, *COLUMNS, *keys))
    ok(
        storage(
            "upsert", name, stdin='{"id":1,"city":"a"}\n{"id":2,"city":"a"}\n{"id":3,"city":"b"}'
        )
    )

    rows = storage.rows("lookup", name, "city=a", "--prefix", "--columns", "id")

    assert sorted(row["id"] for row in rows) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["one"], "'one' is not a value of type int64"),
        (["nothing=1"], "the columns are id, city, amount"),
        (["id=x"], "'x' is not a value of type int64"),
        (["city=a"], "id"),
        (["id=1", "id=2", "city=a"], "different columns"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(storage, name, arguments, told):
    ok(storage("table", "create", name, *KEYED))

    refused = storage("lookup", name, *arguments)

    assert refused.exit_code == 3
    assert told in refused.stderr


def test_a_bad_row_is_named_and_what_was_written_before_it_is_told(storage, name, tmp_path):
    ok(storage("table", "create", name, *COLUMNS))
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("id,city\n1,a\n2,b\n")
    bad.write_text("id,city\n3,c\nx,d\n")

    failed = storage("append", name, str(good), str(bad))

    assert failed.exit_code == 3
    assert failed.stderr.splitlines() == [
        "headwater: 2 rows written before it stopped",
        f"headwater: {bad}: row 3, column 'id': 'x' is not a value of type int64.",
    ]
    assert ok(storage("count", name)) == "2\n"


@pytest.mark.parametrize(
    ("keys", "arguments", "code", "told"),
    [
        (KEYED, ["append"], 3, "headwater upsert"),
        (COLUMNS, ["upsert"], 3, "headwater append"),
        (COLUMNS, ["lookup", "id=1"], 3, "headwater scan"),
        (KEYED, ["upsert", "--columns", "id", "--delete"], 2, "--columns"),
        (COLUMNS, ["append", "missing.csv"], 2, "missing.csv"),
        (COLUMNS, ["append", "--format", "xml"], 2, "xml"),
        (COLUMNS, ["scan", "--where", "id ~ 1"], 3, "amount > 10"),
        (COLUMNS, ["scan", "--columns", "nothing"], 3, "nothing"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(storage, name, keys, arguments, code, told):
    ok(storage("table", "create", name, *keys))

    refused = storage(arguments[0], name, *arguments[1:], stdin=LINES)

    assert refused.exit_code == code
    assert told in refused.stderr
    assert ok(storage("count", name)) == "0\n"


def test_offsets_are_shown_of_every_bucket(storage, name):
    ok(storage("table", "create", name, *COLUMNS, "--buckets", "2", "--bucket-by", "id"))
    ok(storage("append", name, stdin=LINES * 4))

    rows = storage.rows("offsets", name)

    assert [(row["bucket"], row["earliest"]) for row in rows] == [(0, 0), (1, 0)]
    assert sum(row["latest"] for row in rows) == 8
    assert list(storage.rows("offsets", name, "--earliest")[0]) == [
        "partition",
        "bucket",
        "earliest",
    ]
    old = storage.rows("offsets", name, "--time", "2001-01-01T00:00:00Z")
    assert [row["at_time"] for row in old] == [0, 0]
    assert storage("offsets", name, "--time", "yesterday").exit_code == 3


def test_columns_are_as_wide_as_the_rows_of_all_batches_ask_for(storage, name):
    ok(storage("table", "create", name, *COLUMNS))
    for number, city in enumerate(("Rome", "Constantinople")):
        ok(storage("append", name, stdin=json.dumps({"id": number, "city": city}) + "\n"))

    lines = ok(storage("scan", name)).splitlines()

    assert lines[2:] == [" 0  Rome              NULL", " 1  Constantinople    NULL"]
