"""Engines of other people read through the door what our client reads at the same position.

While rows are written and tiered, every answer must be that of a position which the door told
somebody of since the engine was asked: no row twice, and none lost.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from scripts.foreign import Foreign
from scripts.lake_readers import door_reader

from headwater.doors.iceberg.snapshots import POSITION
from headwater.lake.iceberg.manifests import properties_of
from headwater.runtime.clock import SystemClock
from tests.doors.iceberg.opening import LAKE, Shop, in_order, opened_shop

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]
ENGINES = ("duckdb", "daft", "spark")
# By `make interop`; fewer prove less, and are quick.
LOADS = int(os.environ.get("HEADWATER_DOOR_LOADS", "200"))
# Leaves out snapshots that are younger than its transaction: where a round of tiering commits
# between the start of a query and its load, it reads what the lake held before.
KEEPS_TO_ITS_START = ("duckdb",)
COLUMNS = {"id": "BIGINT", "city": "STRING", "n": "INT"}
KEYS = 2000
ROWS = 100
PAUSE_S = 1.0


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with opened_shop(tmp_path_factory.mktemp("doors")) as opened:
        traits = {"buckets": 2, "options": LAKE}
        opened.hw.create_table("log", COLUMNS, bucket_by="id", **traits)
        opened.hw.create_table("keyed", COLUMNS, primary_key="id", **traits)
        write(opened, 0)
        opened.tier()
        write(opened, 1)
        yield opened


def write(shop: Shop, number: int) -> None:
    """Append rows of which no two are alike, and write and delete keys over and over."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    rows = [(at, f"city {at % 7}" if at % 5 else None, number) for at in ids]
    shop.hw.table("log").append(rows)
    keyed = shop.hw.table("keyed")
    keyed.upsert([(at % KEYS, city, n) for at, city, n in rows])
    keyed.delete([(at * 7 % KEYS,) for at in ids if at % 11 == 0])


@contextmanager
def changing(shop: Shop) -> Iterator[None]:
    """Write and tier all the time, in turns that leave the engine some of the machine."""
    stopped = Event()

    def repeated(work) -> None:
        number = 2
        while not stopped.wait(PAUSE_S):
            work(number)
            number += 1

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(repeated, lambda at: write(shop, at))]
        done.append(threads.submit(repeated, lambda _: shop.tier()))
        try:
            yield
        finally:
            stopped.set()
        for each in done:
            each.result()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_what_a_client_reads_at_the_position(engine, shop, tmp_path):
    with door_reader(engine, shop.door.address, log=tmp_path / "log") as asked:
        assert_read(shop, asked, engine, "log", tmp_path)
        assert_read(shop, asked, engine, "keyed", tmp_path)
        with changing(shop):
            for at in range(LOADS):
                assert_read(shop, asked, engine, ("log", "keyed")[at % 2], tmp_path)


def assert_read(shop: Shop, asked: Foreign, engine: str, name: str, place: Path) -> None:
    """Have an engine read a table, and find the position at which our client reads the same."""
    table, began = shop.hw.table(name), SystemClock().monotonic()
    asked.ask("rows", table=name, out=str(place / "rows.arrow"))
    with pa.OSFile(str(place / "rows.arrow")) as file:
        found = pa.ipc.open_file(file).read_all()
    tokens = told(shop, table.info.table_id, since=began)
    assert tokens, "the engine loaded nothing"
    wanted = [table.view(token=token).scan().to_arrow() for token in tokens]
    if engine in KEEPS_TO_ITS_START:
        lake = shop.load(name).snapshots()
        tiered = [each.snapshot_id for each in lake if POSITION not in properties_of(each)]
        wanted += [table.view(snapshot_id=each).scan().to_arrow() for each in tiered[-2:]]
    counts = [each.num_rows for each in wanted]
    is_same = any(alike(found, each) for each in wanted)
    assert is_same, f"{found.num_rows} rows, but there are {counts} at the positions"


def told(shop: Shop, table_id: int, *, since: float) -> list[str]:
    """Return the tokens of the positions of a table that somebody was told of since then."""
    held = shop.door.door._tables._tables
    loaded = [each for (_, number), each in held.items() if number == table_id]
    return [token for each in loaded for token, at in list(each._told.items()) if at.at >= since]


def alike(found: pa.Table, wanted: pa.Table) -> bool:
    chosen = found.select(wanted.column_names).cast(wanted.schema)
    return chosen.num_rows == wanted.num_rows and in_order(chosen).equals(in_order(wanted))
