"""Following a table by command."""

import signal

import pytest

from headwater.cli.tail import clipped, is_over
from headwater.read.offsets import Place
from tests.cli.commanding import RUN_WITHIN_S, Storage, ok

COLUMNS = ("--column", "id:BIGINT", "--column", "city:STRING")
LINES = "".join(f'{{"id":{n},"city":"c{n % 2}"}}\n' for n in range(6))
CHANGES = """\
{"_change_type":"insert","_log_offset":0,"id":1,"city":"a"}
{"_change_type":"update_before","_log_offset":1,"id":1,"city":"a"}
{"_change_type":"update_after","_log_offset":2,"id":1,"city":"b"}
{"_change_type":"delete","_log_offset":3,"id":1,"city":"b"}
"""


@pytest.fixture
def log(storage, name):
    ok(storage("table", "create", name, *COLUMNS))
    ok(
        storage(
            "append",
            name,
            stdin=LINES,
        )
    )
    return name


@pytest.fixture
def keyed(storage, name):
    ok(storage("table", "create", name, *COLUMNS, "--primary-key", "id"))
    ok(storage("upsert", name, stdin='{"id":1,"city":"a"}'))
    ok(storage("upsert", name, stdin='{"id":1,"city":"b"}'))
    ok(storage("upsert", name, "--delete", stdin='{"id":1}'))
    return name


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["--from", "earliest", "--limit", "2"], [0, 1]),
        (["--from", "latest"], []),
        (["--from", "4"], [4, 5]),
        (["--from", "400"], []),
        (["--from", "2001-01-01"], [0, 1, 2, 3, 4, 5]),
        (["--where", "city = c1", "--where", "id > 1"], [3, 5]),
        (["--buckets", "0"], [0, 1, 2, 3, 4, 5]),
        (["--buckets", "1"], []),
        (["--limit", "0"], []),
    ],
)
def test_a_tail_begins_and_ends_where_it_is_told(storage, log, arguments, ids):
    rows = storage.rows("tail", log, "--no-follow", "--columns", "id", *arguments)

    assert rows == [{"id": each} for each in ids]


def test_a_tail_with_a_limit_follows_no_further(storage, log):
    assert len(storage.rows("tail", log, "--limit", "3")) == 3


def test_changes_of_a_log_are_shown_on_demand(storage, log):
    rows = storage.rows("tail", log, "--no-follow", "--changes", "--limit", "1")

    assert list(rows[0]) == ["_change_type", "_log_offset", "_commit_timestamp", "id", "city"]
    assert rows[0]["_change_type"] == "insert"


def test_changes_of_a_keyed_table_are_shown_unless_unwanted(storage, keyed):
    shown = storage.rows("tail", keyed, "--no-follow", "--columns", "id,city")
    plain = storage.rows("tail", keyed, "--no-follow", "--no-changes")

    changes = [row["_change_type"] for row in shown]
    assert changes == ["insert", "update_before", "update_after", "delete"]
    assert [list(row) for row in plain] == [["id", "city"]] * 4


def test_virtual_tables_are_followed_by_name(storage, keyed):
    columns = ("--columns", "_change_type,_log_offset,id,city")
    changelog = storage("tail", f"{keyed}$changelog", "--no-follow", *columns, "--output", "json")
    binlog = storage.rows("tail", f"{keyed}$binlog", "--no-follow", "--where", "_log_offset > 0")

    assert ok(changelog) == CHANGES
    assert [(row["_change_type"], row["before"]["city"]) for row in binlog] == [
        ("update", "a"),
        ("delete", "b"),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--from", "yesterday"], 3, "2026-03-01T12:30:00Z"),
        (["--from", "cursor:nobody"], 4, "nobody"),
        (["--buckets", "one"], 3, "--buckets"),
        (["--where", "town = 1"], 3, "town"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(storage, log, arguments, code, told):
    refused = storage("tail", log, "--no-follow", *arguments)

    assert refused.exit_code == code
    assert told in refused.stderr


def test_rows_are_shown_as_they_come_until_ctrl_c(server, name):
    storage = Storage(server.address)
    ok(storage("table", "create", name, *COLUMNS))
    with storage.process("tail", name, "--output", "json") as process:
        ok(storage("append", name, stdin='{"id":1,"city":"old"}'))
        seen = [process.stdout.readline()]
        ok(storage("append", name, stdin='{"id":2,"city":"new"}'))
        seen.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=RUN_WITHIN_S)

    assert seen == ['{"id":1,"city":"old"}\n', '{"id":2,"city":"new"}\n']
    assert (rest, errors, process.returncode) == ("", "", 0)


def test_an_offset_becomes_the_nearest_that_a_bucket_has():
    a, b = Place(None, 0), Place(None, 1)

    assert clipped(5, {a: 0, b: 7}, {a: 3, b: 9}) == {a: 3, b: 7}
    assert clipped(8, {a: 0, b: 7}, {a: 10, b: 9}) == {a: 8, b: 8}


def test_reading_is_over_when_every_bucket_that_is_left_was_read():
    a, gone = Place(None, 0), Place("old", 0)

    assert not is_over({a: 2}, {a: 3, gone: 9})
    assert is_over({a: 3}, {a: 3, gone: 9})
