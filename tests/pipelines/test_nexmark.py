"""Nexmark in the command: each query as it is written, as a stream and as a batch."""

import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import headwater
from tests.pipelines.sql.corpus import NEXMARK
from tests.pipelines.sql.nexmark import BIDS, LAST, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

QUICK = ("q13", "q18")
OTHERS = tuple(f"q{n}" for n in (0, 1, 2, 3, 5, 7, 8, 9, 11, 14, 15, 16, 17, 19, 20, 21, 22))
STREAMS = ("person", "auction", "bid")
WITHIN_S = 900
BEGIN = """
CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{address}');
USE hw.{database};
SET 'table.dml-sync' = 'true';
"""
# A few micro-batches of each table, so that there is something to remember from one to the next.
SOURCE = """) WITH ('connector' = 'fluss', 'bootstrap.servers' = '{address}',
  'table.name' = '{database}.{name}', 'maxRowsPerTrigger' = '170');"""


@dataclass(frozen=True, slots=True)
class AuctionHouse:
    """A database with the rows of Nexmark, and the command that runs scripts over it."""

    client: headwater.Client
    database: str
    begin: str
    folder: Path

    def run(self, *statements: str) -> subprocess.CompletedProcess[str]:
        script = self.folder / "script.sql"
        script.write_text(self.begin + "\n".join(statements))
        place = f"state.checkpoints.dir={self.folder}/{uuid.uuid4().hex}"
        options = ["--once", "--master", "local[2]", "--set", place]
        command = [sys.executable, "-m", "headwater", "run", str(script), *options]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=WITHIN_S
        )

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """The rows of a table, without those that only end the windows."""
        found = self.client.table(f"{self.database}.{name}").scan().to_pylist()
        kept = [row.values() for row in found if LAST not in row.values()]
        return sorted(tuple(map(str, row)) for row in kept)


@pytest.fixture(scope="module")
def house(served, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nexmark")
    database = f"nexmark_{uuid.uuid4().hex[:8]}"
    address = served.address
    served.client.create_database(database)
    write_rows(folder / "rows")
    tables = _written((NEXMARK / "tables.sql").read_text())
    begin = BEGIN.format(address=address, database=database)
    for name in (*STREAMS, "side_input"):
        rows = [pq.read_table(each) for each in sorted((folder / "rows" / name).glob("*.parquet"))]
        primary_key = "key" if name == "side_input" else ()
        path = f"{database}.{name}"
        table = served.client.create_table(path, rows[0].schema, primary_key=primary_key)
        for each in rows:
            (table.upsert if primary_key else table.append)(each)
    for name in STREAMS:
        end = SOURCE.format(address=address, database=database, name=name)
        begin += tables[name].replace("CREATE TABLE", "CREATE TEMPORARY TABLE").replace(");", end)
    return AuctionHouse(served.client, database, begin, folder)


def _written(text: str) -> dict[str, str]:
    """The statements of a file, by the name of the table that they are about."""
    found: dict[str, str] = {}
    for statement in re.findall(r"^(?:CREATE|INSERT)[^;]*;\n?", text, re.MULTILINE):
        name = statement.split()[2]
        found[name] = found.get(name, "") + statement
    return found


def check(house: AuctionHouse, *queries: str) -> None:
    texts = _written((NEXMARK / "queries.sql").read_text())
    written = [texts[query] for query in queries]
    again = [
        text.replace(f" {q} ", f" {q}_batch ").replace(f" {q}\n", f" {q}_batch\n")
        for q, text in zip(queries, written, strict=True)
    ]

    ran = house.run(*written, "SET 'execution.runtime-mode' = 'batch';", *again)

    assert ran.returncode == 0, ran.stderr
    for query in queries:
        streamed, computed = house.rows(query), house.rows(f"{query}_batch")
        assert streamed == computed, query
        assert streamed, query


def test_queries_of_nexmark_in_the_command_are_equal_to_a_batch(house):
    check(house, *QUICK)


@pytest.mark.torture
@pytest.mark.parametrize("query", OTHERS)
def test_so_is_every_other_query(house, query):
    check(house, query)


@pytest.mark.torture
def test_the_query_that_aggregates_results_which_change_is_refused_in_streams(house):
    text = _written((NEXMARK / "queries.sql").read_text())["q4"]

    streamed = house.run(text)
    computed = house.run("SET 'execution.runtime-mode' = 'batch';", text.partition(";")[2])

    assert streamed.returncode == 3
    assert "Spark cannot aggregate results that still change" in streamed.stderr
    assert computed.returncode == 0, computed.stderr
    assert house.rows("q4")


@pytest.mark.torture
def test_the_windows_of_the_clock_hold_every_bid_once_in_a_batch(house):
    text = _written((NEXMARK / "queries.sql").read_text())["q12"]

    ran = house.run("SET 'execution.runtime-mode' = 'batch';", text)

    assert ran.returncode == 0, ran.stderr
    assert sum(int(count) for _, count, _, _ in house.rows("q12")) == BIDS
