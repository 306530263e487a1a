"""Lake tables from the command line: how they stand, and keeping them in order."""

import asyncio

import pytest
from pyiceberg.catalog import load_catalog
from pypaimon import CatalogFactory

import headwater
from headwater import aio
from headwater.cli import lake_run as lake_tables
from headwater.lake.lakes import open_lake
from headwater.model.path import TablePath
from headwater.runtime.clock import SystemClock
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.cli.commanding import Storage, ok

SCHEMA = {"id": "BIGINT", "text": "STRING"}
ROUNDS = 7
CLICKS = TablePath("fluss", "clicks")


@pytest.fixture(params=["iceberg", "paimon"])
def at(request, tmp_path) -> Storage:
    """Return a storage with a table that was tiered in several rounds."""
    options = {
        "table.datalake.enabled": True,
        "table.datalake.format": request.param,
        "table.datalake.system-columns": False,
    }
    asyncio.run(_tiered(tmp_path / "data", options))
    return Storage(str(tmp_path / "data"))


async def _tiered(directory, options) -> None:
    async with await aio.open(directory) as hw:
        table = await hw.create_table("clicks", SCHEMA, buckets=1, options=options)
        await hw.create_table("plain", SCHEMA)
        for number in range(ROUNDS):
            await table.append([{"id": number, "text": "a"}])
            await TieringService(hw, LocalRunner(hw)).run_once()


def append(at: Storage, number: int) -> None:
    ok(at("append", "clicks", stdin=f'{{"id":{number},"text":"b"}}\n'))


def lake_columns(at: Storage) -> tuple[str, ...]:
    """Return the columns of the lake table; none if there is no such table."""
    shown = {row["property"]: row["value"] for row in at.rows("lake", "where", "clicks")}
    shown.pop("table")
    return open_lake(shown.pop("format"), shown).catalog().column_names(CLICKS)


def test_it_is_shown_how_far_lake_tables_are_behind(at):
    append(at, 100)

    (shown,) = at.rows("lake", "status")

    assert shown["table"] == "fluss.clicks"
    assert (shown["lag_rows"], shown["rows"], shown["failures"]) == (1, ROUNDS, 0)
    assert 0 <= shown["lag_s"] < 600  # rounded, and the row came a moment ago
    assert shown["snapshot"] is not None


@pytest.mark.parametrize("at", ["iceberg"], indirect=True)
def test_a_lake_that_cannot_be_reached_is_told_with_the_table(at):
    (shown,) = at.rows("lake", "status", "--lake", "uri=sqlite:////proc/nowhere/catalog.sqlite")

    assert shown["snapshot"] is None
    assert "Check the address of the warehouse" in shown["error"]


def test_it_is_told_where_other_programs_find_a_lake_table(at):
    shown = {row["property"]: row["value"] for row in at.rows("lake", "where", "clicks")}

    form = shown.pop("format")
    assert shown.pop("table") == "fluss.clicks"
    name = shown.pop("name", None)
    if form == "iceberg":
        rows = load_catalog(name, **shown).load_table("fluss.clicks").scan().to_arrow()
        assert rows.num_rows == ROUNDS
    else:
        assert CatalogFactory.create(shown).get_table("fluss.clicks").field_names == ["id", "text"]


def test_what_the_lake_keeps_of_a_dropped_table_can_be_dropped(at):
    shown = {row["property"]: row["value"] for row in at.rows("lake", "where", "clicks")}
    ok(at("table", "drop", "clicks", "--yes"))

    warehouse = ("--lake", f"warehouse={shown['warehouse']}")
    ok(at("lake", "drop", "clicks", "--yes", "--format", shown["format"], *warehouse))

    lake = open_lake(shown["format"], {"warehouse": shown["warehouse"]})
    assert lake.catalog().list_tables() == []


def test_snapshots_are_listed_with_what_they_hold(at):
    shown = at.rows("lake", "snapshots", "clicks")

    assert shown[-1]["offsets"] == ROUNDS
    assert [each["offsets"] for each in shown] == sorted(each["offsets"] for each in shown)
    assert all(each["epoch"] for each in shown)


def test_small_files_become_one(at):
    before = at.rows("lake", "status")[0]["files"]

    told = ok(at("lake", "compact", "clicks"))

    after = at.rows("lake", "status")[0]
    assert "Rewrote" in told or before == after["files"]
    assert (after["rows"], after["lag_rows"]) == (ROUNDS, 0)
    assert after["files"] < ROUNDS


def test_old_snapshots_go_and_the_rows_stay(at):
    (told,) = at.rows("lake", "expire", "clicks", "--keep", "1", "--older-than", "1ms")

    assert told["snapshots"] >= ROUNDS - 1
    assert len(at.rows("lake", "snapshots", "clicks")) == 1
    assert at.rows("lake", "status")[0]["rows"] == ROUNDS


def test_files_that_no_snapshot_holds_go(at):
    (told,) = at.rows("lake", "clean", "clicks", "--older-than", "1ms")

    assert told["status"] == "cleaned"
    assert at.rows("lake", "status")[0]["rows"] == ROUNDS


def test_what_is_old_is_old_by_the_clock_of_the_server_as_well(at, monkeypatch):
    ahead = type("Ahead", (SystemClock,), {"now_ms": lambda _self: 2 * SystemClock().now_ms()})
    monkeypatch.setattr(lake_tables, "SystemClock", ahead)

    (told,) = at.rows("lake", "expire", "clicks", "--keep", "1", "--older-than", "1h")

    assert told["snapshots"] == 0


def test_a_dropped_lake_table_is_made_anew(at):
    ok(at("lake", "drop", "clicks", "--yes"))

    (shown,) = at.rows("lake", "status")
    assert (shown["snapshot"], shown["lag_rows"]) == (None, ROUNDS)
    with headwater.open(at.at) as hw:
        assert hw.table("clicks").count() == ROUNDS


def test_a_lake_table_is_made_for_others_to_fill(at):
    ok(at("lake", "drop", "clicks", "--yes"))
    assert lake_columns(at) == ()

    ok(at("lake", "create", "clicks"))

    assert lake_columns(at) == ("id", "text")
    assert at.rows("lake", "status")[0]["snapshot"] is None


def test_system_columns_stay_behind_those_of_the_table(at):
    ok(at("lake", "drop", "clicks", "--yes"))
    ok(at("lake", "create", "clicks", "--system-columns"))
    ok(at("table", "alter", "clicks", "--add-column", "more:INT"))

    ok(at("lake", "create", "clicks", "--system-columns"))

    assert lake_columns(at) == ("id", "text", "more", "__bucket", "__offset", "__timestamp")


def test_a_lake_table_without_system_columns_is_left_alone(at):
    result = at("lake", "create", "clicks", "--system-columns")

    assert result.exit_code == 5
    assert "lake drop" in result.stderr
    assert lake_columns(at) == ("id", "text")


def test_the_lake_table_of_an_earlier_table_is_left_alone(at):
    with headwater.open(at.at) as hw:
        form = hw.table("clicks").info.descriptor.properties["table.datalake.format"]
        options = {"table.datalake.enabled": True, "table.datalake.format": form}
        hw.drop_table("clicks")
        hw.create_table("clicks", {"other": "BIGINT"}, options=options)

    result = at("lake", "create", "clicks")

    assert "earlier table" in result.stderr
    assert lake_columns(at) == ("id", "text")


def test_nobody_drops_a_lake_table_without_being_asked(at):
    result = at("lake", "drop", "clicks")

    assert result.exit_code == 3
    assert "--yes" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["status", "missing"], "missing"),
        (["snapshots", "plain"], "table.datalake.enabled"),
        (["compact", "plain"], "table.datalake.enabled"),
        (["expire", "clicks", "--older-than", "soon"], "--older-than"),
    ],
)
def test_what_cannot_be_done_is_told_with_a_way_out(at, arguments, told):
    result = at("lake", *arguments)

    assert result.exit_code in (3, 4)
    assert told in result.stderr
