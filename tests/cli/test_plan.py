"""Plans and explanations from the command line, of tables in lake and log."""

import asyncio
import json

import pytest

import headwater
from headwater import aio
from headwater.cli.read import offsets_of
from headwater.errors import RequestError
from headwater.read.offsets import Place
from headwater.read.split import split_of_document
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.cases import cases
from tests.cli.commanding import Storage, ok

SCHEMA = {"id": "BIGINT", "text": "STRING"}


@pytest.fixture(scope="module", params=["iceberg", "paimon"])
def at(request, tmp_path_factory) -> Storage:
    """Return a storage with a log and rows by key, each in its lake but for the last rows."""
    directory = tmp_path_factory.mktemp("planned") / "data"
    options = {"table.datalake.enabled": True, "table.datalake.format": request.param}
    asyncio.run(_tiered(directory, options))
    return Storage(str(directory))


async def _tiered(directory, options) -> None:
    async with await aio.open(directory) as hw:
        log = await hw.create_table("clicks", SCHEMA, buckets=1, options=options)
        keyed = await hw.create_table(
            "shelves", SCHEMA, primary_key=["id"], buckets=2, options=options
        )
        for start in (0, 100):
            rows = [{"id": start + at, "text": "old"} for at in range(20)]
            await log.append(rows)
            await keyed.upsert(rows)
            await TieringService(hw, LocalRunner(hw)).run_once()
        await log.append([{"id": 200, "text": "new"}])
        await keyed.upsert([{"id": at, "text": "new"} for at in range(5)])


def document(at: Storage, *arguments: str) -> dict:
    return json.loads(ok(at(*arguments, "--json")))


def test_a_plan_lists_lake_and_log(at):
    found = at("plan", "clicks")

    head, _, *lines = ok(found).splitlines()
    assert head.split() == ["tier", "bucket", "files", "rows", "bytes", "start", "end"]
    assert lines[0].split()[0] == "LAKE_ONLY"
    assert lines[-1].split() == ["LOG_ONLY", "0", "0", "0", "0", "40", "41"]


@pytest.mark.parametrize("table", ["clicks", "shelves"])
def test_the_splits_of_a_plan_are_read_by_others_at_its_token(at, table):
    planned = document(at, "plan", table, "--where", "id < 102")
    splits = [split_of_document(each) for each in planned["splits"]]

    with headwater.open(at.at) as hw:
        view = hw.table(table).view(token=planned["token"])
        rows = [row for batch in view.read(splits) for row in batch.to_pylist()]
        wanted = hw.table(table).scan(where=[("id", "<", 102)]).to_pylist()

    assert {tuple(row.values()) for row in wanted} <= {tuple(row.values()) for row in rows}
    assert len({row["id"] for row in rows}) == len(rows)


def test_a_limit_makes_a_plan_short(at):
    assert len(document(at, "plan", "clicks", "--limit", "1")["splits"]) == 1


def test_an_explanation_tells_what_is_read_and_what_is_left_out(at):
    text = ok(at("explain", "clicks", "--where", "id >= 150"))

    assert "LOG_ONLY" in text
    assert "bounds rule out id >= 150" in text or "id in [" in text
    assert "behind" in text


def test_an_explanation_as_json_holds_the_same(at):
    told = document(at, "explain", "shelves", "--columns", "id")

    assert told["columns"] == ["id"]
    assert {tier for each in told["buckets"] for tier in each["tiers"]} <= {"HYBRID", "LAKE_ONLY"}
    assert told["total"]["offsets"] >= 5
    assert told == document(at, "explain", "shelves", "--columns", "id", "-o", "json") | {
        "freshness": told["freshness"],
        "snapshot": told["snapshot"],
    }


def test_positions_are_named_in_every_way(at):
    newest = document(at, "plan", "clicks")
    lake = document(at, "plan", "clicks", "--mode", "lake")
    older = document(at, "plan", "clicks", "--snapshot-id", str(lake["snapshot_id"]))
    token = document(at, "plan", "clicks", "--token", newest["token"])
    log = document(at, "plan", "clicks", "--mode", "log")

    assert token["splits"] == newest["splits"]
    assert older["splits"] == lake["splits"]
    assert {each["tier"] for each in lake["splits"]} == {"LAKE_ONLY"}
    assert [each["log"]["end"] for each in log["splits"]] == [41]


def test_an_offset_ends_a_bucket(at):
    planned = document(at, "plan", "clicks", "--offset", "0=40")

    assert {each["tier"] for each in planned["splits"]} == {"LAKE_ONLY"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--token", "nonsense"), "is not a token"),
        (("--offset", "zero=1"), "Write it as BUCKET=OFFSET"),
        (("--offset", "0=99"), "99"),
        (("--as-of", "yesterday"), "is not a time"),
        (("--snapshot-id", "1", "--as-of", "5"), "2 ways"),
        (("--where", "nothing = 1"), "no column 'nothing'"),
    ],
)
def test_what_names_no_position_is_told(at, arguments, said):
    found = at("explain", "clicks", *arguments)

    assert found.exit_code != 0
    assert said in " ".join(found.stderr.split())


def test_offsets_are_named_by_partition_and_bucket():
    found = offsets_of(["0=5", "2026-11-16/3=70"])

    assert found == {Place(None, 0): 5, Place("2026-11-16", 3): 70}


@cases("texts", [["0"], ["=5"], ["0=-1"], ["a/b/0=1"], ["0=1", "0=2"]])
def test_other_offsets_are_refused(texts):
    with pytest.raises(RequestError):
        offsets_of(texts)
