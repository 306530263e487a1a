"""Databases, tables and partitions by command."""

import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.commanding import Storage, ok

COLUMNS = ("--column", "id:BIGINT", "--column", "price:DECIMAL(10,2) NOT NULL")


def test_a_database_comes_and_goes(storage, name):
    ok(storage("database", "create", name, "--comment", "for tests"))

    assert {"database": name} in storage.rows("database", "list")
    assert storage("database", "create", name).exit_code == 5
    ok(storage("database", "create", name, "--if-not-exists"))
    ok(storage("database", "drop", name, "--yes"))
    assert storage("database", "drop", name, "--yes").exit_code == 4
    ok(storage("database", "drop", name, "--yes", "--if-exists"))
    assert {"database": name} not in storage.rows("database", "list")


def test_a_database_with_tables_goes_only_with_them(storage, name):
    ok(storage("database", "create", name))
    ok(storage("table", "create", f"{name}.t", *COLUMNS))

    refused = storage("database", "drop", name, "--yes")

    assert refused.exit_code == 5
    ok(storage("database", "drop", name, "--yes", "--cascade"))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--column", "id"),
        ("--column", "id:BIGNT"),
        (*COLUMNS, "--primary-key", "other"),
        (*COLUMNS, "--option", "ttl"),
    ],
)
def test_a_table_that_cannot_be_leaves_no_directory_behind(tmp_path, arguments):
    refused = Storage(str(tmp_path / "new"))("table", "create", "t", *arguments)

    assert refused.exit_code in (2, 3)
    assert not (tmp_path / "new").exists()


def test_a_table_is_described_as_it_was_created(storage, name):
    made = storage(
        *("table", "create", name, *COLUMNS, "--column", "day:STRING", "--comment", "all of them"),
        *("--primary-key", "id,day", "--partition-by", "day", "--bucket-by", "id"),
        *("--buckets", "3", "--option", "table.log.ttl=30d"),
    )
    [table] = storage.rows("table", "describe", name)

    assert ok(made) == f"Created table fluss.{name}.\n"
    assert [(column["name"], column["type"]) for column in table["columns"]] == [
        ("id", "BIGINT NOT NULL"),
        ("price", "DECIMAL(10, 2) NOT NULL"),
        ("day", "STRING NOT NULL"),
    ]
    assert table["primary_key"] == ["id", "day"]
    assert (table["partition_by"], table["bucket_by"], table["buckets"]) == (["day"], ["id"], 3)
    assert table["options"]["table.log.ttl"] == "30d"
    assert (table["comment"], table["rows"], table["partitions"]) == ("all of them", 0, [])


def test_options_of_other_systems_are_described_under_our_names(storage, name):
    given = ("log.retention.hours=24", "bucket.num=3", "log.roll.hours=1", "custom.a=b")
    options = [part for each in given for part in ("--option", each)]
    made = storage("table", "create", name, *COLUMNS, *options)
    ok(storage("table", "alter", name, "--set", "log.segment.bytes=1048576"))

    [table] = storage.rows("table", "describe", name)

    assert ok(made) == f"Created table fluss.{name}.\n"
    assert table["buckets"] == 3
    assert table["options"] == {
        "custom.a": "b",
        "table.log.roll": "1 h",
        "table.log.segment.bytes": "1048576 b",
        "table.log.ttl": "24 h",
        "table.replication.factor": "1",
    }
    assert table["without_effect"] == {}


def test_an_option_without_effect_is_marked(storage, name):
    ok(storage("table", "create", name, *COLUMNS, "--option", "table.log.local-ttl=1h"))

    [table] = storage.rows("table", "describe", name)

    assert list(table["without_effect"]) == ["table.log.local-ttl"]
    assert "table.log.local-ttl (no effect)" in ok(storage("table", "describe", name))


def test_the_page_of_a_table_shows_what_people_look_for(storage, name):
    ok(storage("table", "create", name, *COLUMNS, "--buckets", "2"))
    ok(storage("append", name, stdin='{"id":1,"price":2}\n'))

    page = ok(storage("table", "describe", name))

    assert f"table      fluss.{name}\nkind       log table\nbuckets    2\nrows       1\n" in page
    assert "price   DECIMAL(10, 2) NOT NULL\n" in page
    assert "bucket  earliest  latest\n" in page


def test_tables_are_listed_of_one_database_or_of_all(storage, name):
    ok(storage("database", "create", name))
    ok(storage("table", "create", f"{name}.inside", *COLUMNS))
    ok(storage("table", "create", name, *COLUMNS))

    assert storage.rows("table", "list", name) == [{"database": name, "table": "inside"}]
    everywhere = storage.rows("table", "list")
    assert {"database": name, "table": "inside"} in everywhere
    assert {"database": "fluss", "table": name} in everywhere


def test_a_table_that_is_there_is_a_conflict_unless_that_is_fine(storage, name):
    ok(storage("table", "create", name, *COLUMNS))

    refused = storage("table", "create", name, *COLUMNS)

    assert refused.exit_code == 5
    assert refused.stderr.startswith("headwater: ")
    ok(storage("table", "create", name, *COLUMNS, "--if-not-exists"))


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_a_table_takes_its_columns_from_a_file(storage, name, tmp_path, form):
    path = tmp_path / f"rows.{form}"
    rows = pa.table({"id": [1, 2], "city": ["Rome", "Oslo"]})
    if form == "parquet":
        pa.parquet.write_table(rows, path)
    else:
        csv, lines = "id,city\n1,Rome\n", '{"id":1,"city":"Rome"}\n'
        path.write_text(csv if form == "csv" else lines)

    ok(storage("table", "create", name, "--like", str(path), "--primary-key", "id"))

    [table] = storage.rows("table", "describe", name)
    kinds = [(column["name"], column["type"]) for column in table["columns"]]
    assert kinds == [("id", "BIGINT NOT NULL"), ("city", "STRING")]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "--column"),
        (["--column", "id"], 3, "name:TYPE"),
        (["--column", "id:NUMBER"], 3, "NUMBER"),
        (["--column", "id:INT", "--column", "id:INT"], 3, "twice"),
        ([*COLUMNS, "--primary-key", "nothing"], 3, "nothing"),
        ([*COLUMNS, "--option", "table.log.tl=1d"], 3, "table.log"),
        ([*COLUMNS, "--buckets", "0"], 2, "--buckets"),
        (["--like", "missing.parquet"], 2, "missing.parquet"),
    ],
)
def test_a_table_that_cannot_be_is_refused_with_a_reason(storage, name, arguments, code, told):
    refused = storage("table", "create", name, *arguments)

    assert refused.exit_code == code
    assert told in refused.stderr
    assert storage("table", "describe", name).exit_code == 4


def test_a_table_is_altered_step_by_step(storage, name):
    ok(storage("table", "create", name, *COLUMNS))

    told = ok(
        storage("table", "alter", name, "--add-column", "note:STRING", "--set", "table.log.ttl=1d")
    )

    [table] = storage.rows("table", "describe", name)
    assert told == f"Changed table fluss.{name}: added column note, set table.log.ttl.\n"
    assert table["columns"][-1]["name"] == "note"
    assert table["options"]["table.log.ttl"] == "1d"
    ok(storage("table", "alter", name, "--reset", "table.log.ttl"))
    assert "table.log.ttl" not in storage.rows("table", "describe", name)[0]["options"]


def test_what_was_altered_before_a_failure_is_told(storage, name):
    ok(storage("table", "create", name, *COLUMNS))

    failed = storage("table", "alter", name, "--add-column", "a:INT", "--set", "table.no.such=1")

    assert failed.exit_code == 3
    assert "done before the error: added column a" in failed.stderr
    assert storage("table", "alter", name).exit_code == 2


def test_a_table_is_dropped_only_by_who_says_yes(storage, name):
    ok(storage("table", "create", name, *COLUMNS))

    refused = storage("table", "drop", name)

    assert refused.exit_code == 3
    assert "--yes" in refused.stderr
    assert ok(storage("table", "drop", name, "--yes")) == f"Dropped table {name}.\n"
    assert storage("table", "drop", name, "--yes").exit_code == 4
    ok(storage("table", "drop", name, "--yes", "--if-exists"))


def test_partitions_come_and_go(storage, name):
    ok(
        storage(
            "table", "create", name, *COLUMNS, "--column", "day:STRING", "--partition-by", "day"
        )
    )

    ok(storage("partition", "create", name, "day=1"))
    ok(storage("partition", "create", name, "day=2"))

    assert storage.rows("partition", "list", name) == [{"day": "1"}, {"day": "2"}]
    assert storage("partition", "create", name, "day=1").exit_code == 5
    ok(storage("partition", "create", name, "day=1", "--if-not-exists"))
    ok(storage("partition", "drop", name, "day=1", "--yes"))
    assert storage("partition", "drop", name, "day=1", "--yes").exit_code == 4
    ok(storage("partition", "drop", name, "day=1", "--yes", "--if-exists"))
    assert storage.rows("partition", "list", name) == [{"day": "2"}]


def test_a_partition_that_makes_no_sense_is_refused(storage, name):
    ok(storage("table", "create", name, *COLUMNS))

    for arguments in [("list", name), ("create", name, "day=1"), ("create", name, "day")]:
        refused = storage("partition", *arguments)
        assert refused.exit_code == 3, refused.stderr


@pytest.mark.parametrize("output", ["json", "csv"])
def test_what_was_done_is_told_to_programs_as_a_document(storage, name, output):
    told = ok(storage("table", "create", name, *COLUMNS, "--output", output))

    if output == "json":
        assert json.loads(told) == {"table": f"fluss.{name}", "status": "created"}
    else:
        assert told == f"table,status\nfluss.{name},created\n"
