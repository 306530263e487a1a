"""A log table and a keyed one, mostly in the lake, and the same rows as plain Parquet files."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headwater
from headwater.client.client import AsyncClient
from headwater.tiering.plan import TieringSettings
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner

BUCKETS = 4
BATCH_ROWS = 500_000
TAIL_SHARE = 40
"""One row of the tail for so many of the lake."""
FORMATS = ("iceberg", "paimon")
DONE = "done.json"
ROW_GROUP_ROWS = 1 << 20
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("ts", pa.timestamp("us")),
        ("region", pa.string()),
        ("user", pa.string()),
        ("amount", pa.float64()),
        ("qty", pa.int32()),
        ("note", pa.string()),
    ]
)
FIRST_US = 1_700_000_000_000_000


@dataclass(frozen=True)
class Made:
    """Say where the tables are, and the plain files of the same rows."""

    directory: Path
    rows: int
    lake: str

    @property
    def storage(self) -> Path:
        return self.directory / "data"

    def table(self, kind: str) -> str:
        return f"{kind}_{self.lake}"

    def plain(self, kind: str) -> list[str]:
        return sorted(map(str, (self.directory / self.table(kind)).glob("*.parquet")))

    @property
    def middle_us(self) -> int:
        return FIRST_US + self.rows // 2 * 1000


def rows(ids: np.ndarray, *, seed: int) -> pa.RecordBatch:
    """Return rows with these ids, a millisecond apart."""
    random = np.random.default_rng(seed)
    count = len(ids)
    regions = np.array([f"region-{number:02d}" for number in range(20)])
    words = np.array([f"{number:x}" for number in random.integers(0, 1 << 40, 5_000)])
    first, second = (pa.array(words[random.integers(0, len(words), count)]) for _ in range(2))
    numbers = pa.array(random.integers(0, 1 << 20, count)).cast(pa.string())
    columns = [
        pa.array(ids),
        pa.array(FIRST_US + ids * 1000, pa.timestamp("us")),
        pa.array(regions[random.integers(0, len(regions), count)]),
        pa.array(random.integers(0, 100_000, count)).cast(pa.string()),
        random.random(count) * 1000,
        random.integers(0, 100, count).astype("int32"),
        pa.compute.binary_join_element_wise(first, second, numbers, " "),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def make(directory: Path, *, count: int, lake: str) -> Made:
    """Fill both tables, unless an earlier run did, and write their rows as plain files."""
    made = Made(directory, count, lake)
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / f"{lake}-{DONE}"
    if done.exists() and json.loads(done.read_text()) == {"rows": count}:
        return made
    with headwater.open(made.storage) as hw:
        for kind in ("log", "keyed"):
            table = _filled(hw, made, kind)
            hw.run(lambda client, table=table: _tier(client, table))
            _add_tail(table, count)
            _write_plain(table, directory / made.table(kind))
    done.write_text(json.dumps({"rows": count}))
    return made


def _filled(hw: headwater.Client, made: Made, kind: str) -> headwater.Table:
    table = hw.create_table(
        made.table(kind),
        SCHEMA,
        buckets=BUCKETS,
        bucket_by="id",
        primary_key="id" if kind == "keyed" else (),
        options={"table.datalake.enabled": True, "table.datalake.format": made.lake},
    )
    for first in range(0, made.rows, BATCH_ROWS):
        batch = rows(np.arange(first, min(first + BATCH_ROWS, made.rows)), seed=first)
        (table.upsert if kind == "keyed" else table.append)(batch)
    return table


async def _tier(client: AsyncClient, table: headwater.Table) -> None:
    settings = TieringSettings(rows_max=1 << 40)
    await TieringService(client, LocalRunner(client), settings=settings).run_once(
        tables=[table.path]
    )


def _add_tail(table: headwater.Table, count: int) -> None:
    """Append rows; by key 70 % updates of hot keys, 20 % new rows and 10 % deletes."""
    tail = count // TAIL_SHARE
    if not table.is_keyed:
        table.append(rows(np.arange(count, count + tail), seed=1))
        return
    random = np.random.default_rng(1)
    hot = random.choice(count, count // 20, replace=False)
    # Squared, so that some of the hot keys are hotter than others.
    picks = (random.random(tail * 8 // 10) ** 2 * len(hot)).astype(np.int64)
    updated, deleted = np.split(hot[picks], [tail * 7 // 10])
    table.upsert(rows(updated, seed=2))
    table.upsert(rows(np.arange(count, count + tail * 2 // 10), seed=3))
    table.delete(pa.table({"id": np.unique(deleted)}))


def _write_plain(table: headwater.Table, directory: Path) -> None:
    """Write the rows of a table as files of the size, codec and order of those in the lake."""
    directory.mkdir()
    found = table.view().scan().to_arrow()
    files = BUCKETS * max(1, round(found.num_rows / BUCKETS / 2_000_000))
    size = -(-found.num_rows // files)
    for number in range(files):
        pq.write_table(
            found.slice(number * size, size),
            directory / f"{number:03d}.parquet",
            compression="zstd",
            compression_level=1,
            row_group_size=ROW_GROUP_ROWS,
        )
