"""Cursors and the live view by command."""

import pytest

import headwater
from headwater.cli.top import TablesSample, grid, growth
from tests.cli.commanding import ok

LINES = "".join(f'{{"id":{n}}}\n' for n in range(6))


@pytest.fixture
def log(storage, name):
    ok(storage("table", "create", name, "--column", "id:BIGINT"))
    ok(storage("append", name, stdin=LINES))
    return name


def test_a_cursor_is_set_shown_and_deleted(storage, log):
    ok(storage("cursor", "reset", "billing", log, "--to", "4"))

    [summary] = [row for row in storage.rows("cursor", "list") if row["table"] == f"fluss.{log}"]
    [state] = storage.rows("cursor", "describe", "billing", log)

    assert summary == {"cursor": "billing", "table": f"fluss.{log}", "members": 0, "lag_rows": 2}
    assert [(p["bucket"], p["position"], p["end"]) for p in state["places"]] == [(0, 4, 6)]
    assert storage.rows("tail", log, "--no-follow", "--from", "cursor:billing") == [
        {"id": 4},
        {"id": 5},
    ]
    ok(storage("cursor", "delete", "billing", log, "--yes"))
    assert storage("cursor", "describe", "billing", log).exit_code == 4


def test_a_cursor_is_described_to_people(storage, log):
    ok(storage("cursor", "reset", "mail", log, "--to", "earliest"))

    page = ok(storage("cursor", "describe", "mail", log))

    assert page.startswith(f"cursor    mail\ntable     fluss.{log}\nlag       6 rows, ")
    assert "members   none\n" in page


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("describe", "nobody"), 4),
        (("delete", "nobody", "--yes"), 4),
        (("reset", "x", "--to", "soon"), 3),
        (("reset", "x"), 2),
        (("delete", "x"), 3),
    ],
)
def test_a_cursor_that_is_not_there_or_makes_no_sense_is_refused(storage, log, arguments, code):
    verb, cursor, *rest = arguments

    assert storage("cursor", verb, cursor, log, *rest).exit_code == code


def test_one_view_shows_tables_with_ends_and_lags(storage, log):
    ok(storage("cursor", "reset", "slow", log, "--to", "1"))
    ok(storage("cursor", "reset", "quick", log, "--to", "latest"))

    rows = storage.rows("top", "--once", "--interval", "0.05")

    [row] = [each for each in rows if each["table"] == f"fluss.{log}"]
    assert row == {
        "table": f"fluss.{log}",
        "rows_per_s": 0.0,
        "end": 6,
        "cursors": 2,
        "lag_rows": 5,
        "slowest_cursor": "slow",
    }


def test_the_busiest_table_stands_first_and_a_new_one_has_no_rate():
    before = TablesSample(at_s=1.0, ends={"a": 0, "b": 100, "gone": 5}, lags={})
    now = TablesSample(
        at_s=3.0, ends={"a": 50, "b": 400, "new": 7, "c": 1}, lags={"a": {"x": None}}
    )

    rows = growth(before, now)

    assert [(row["table"], row["rows_per_s"]) for row in rows] == [
        ("b", 150.0),
        ("a", 25.0),
        ("c", None),
        ("new", None),
    ]
    assert (rows[1]["cursors"], rows[1]["lag_rows"]) == (1, None)
    assert growth(None, now)[0]["rows_per_s"] is None


def test_a_table_that_was_made_again_does_not_shrink():
    before, now = (
        TablesSample(at_s=at, ends={"a": end}, lags={}) for at, end in ((1.0, 9), (2.0, 3))
    )

    assert growth(before, now)[0]["rows_per_s"] == 0.0


def test_the_live_view_has_a_line_for_each_table_that_fits():
    now = TablesSample(at_s=1.0, ends={"a": 1234, "b": 2, "c": 3}, lags={})

    shown = grid(growth(None, now), lines=2)

    assert (shown.row_count, shown.caption) == (2, "and 1 more")
    assert grid(growth(None, now), lines=3).caption is None
    assert [cell for column in shown.columns for cell in column.cells][:2] == ["a", "b"]
    assert "1,234" in list(shown.columns[2].cells)


def test_the_lag_of_a_reader_is_seen_from_outside(storage, log):
    # A directory has one process at a time, so the reader is done when it is looked at.
    opened = headwater.open if "/" in storage.at else headwater.connect
    with opened(storage.at) as client:
        client.cursors.reset("reader", log, to={0: 3})

    [row] = [r for r in storage.rows("cursor", "list") if r["table"] == f"fluss.{log}"]

    assert row["lag_rows"] == 3
