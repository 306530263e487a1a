"""The eight tables of TPC-H, mostly in the lake, and the same rows as plain Parquet files.

The rows come from `tpchgen-cli`; nine in ten are tiered. By key one row in a hundred is
then updated and one in a thousand deleted, spread over the whole table.
"""

import importlib.metadata
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import headwater
from headwater.client.client import AsyncClient
from headwater.tiering.plan import TieringSettings
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner

GENERATOR = "tpchgen-cli"
KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
UPDATED = {
    "supplier": "s_acctbal",
    "customer": "c_acctbal",
    "part": "p_retailprice",
    "partsupp": "ps_supplycost",
    "orders": "o_totalprice",
    "lineitem": "l_extendedprice",
}
"""The column that updates change; nations and regions stay as they are."""
TAIL_SHARE = 10
UPDATE_EVERY = 100
DELETE_EVERY = 1000
DELETE_FIRST = 50
BUCKETS = 2
BATCH_ROWS = 200_000
SMALL_ROWS = 10_000
VARIANTS = ("log", "key")
FORMATS = ("iceberg", "paimon")


@dataclass(frozen=True)
class Made:
    """Say where the tables of one lake format and variant are."""

    directory: Path
    lake: str
    variant: str

    @property
    def storage(self) -> Path:
        return self.directory / "data"

    @property
    def database(self) -> str:
        return f"tpch_{self.variant}"

    def plain(self, name: str) -> Path:
        return self.directory / "plain" / name


def generate(directory: Path, scale: float) -> None:
    """Write the tables as the generator gives them, or say how to get one."""
    beside = Path(sys.executable).with_name(GENERATOR)
    program = str(beside) if beside.exists() else shutil.which(GENERATOR)
    if program is None:
        sys.exit(f"The rows come from {GENERATOR}, which is not here: pip install {GENERATOR}")
    words = ["parquet", "-s", str(scale), f"--output-dir={directory}"]
    subprocess.run([program, *words], check=True)


def version() -> str:
    """Return which generator this is, as far as that is known."""
    try:
        return f"{GENERATOR} {importlib.metadata.version(GENERATOR)}"
    except importlib.metadata.PackageNotFoundError:
        return GENERATOR


def make(source: Path, made: Made) -> None:
    """Fill, tier and change each table, then write its final rows as a plain file."""
    made.directory.mkdir(parents=True)
    with headwater.open(made.storage) as hw:
        hw.create_database(made.database)
        for name in KEYS:
            _make_table(hw, made, name, rows=_read(source / f"{name}.parquet"))


def _read(path: Path) -> pa.Table:
    found = pq.read_table(path)
    # The generator numbers its columns; those numbers are not of our tables.
    return found.cast(pa.schema([field.remove_metadata() for field in found.schema]))


def _make_table(hw: headwater.Client, made: Made, name: str, *, rows: pa.Table) -> None:
    is_keyed = made.variant == "key"
    table = hw.create_table(
        f"{made.database}.{name}",
        rows.schema,
        buckets=BUCKETS if rows.num_rows > SMALL_ROWS else 1,
        bucket_by=KEYS[name][0],
        primary_key=KEYS[name] if is_keyed else (),
        options={"table.datalake.enabled": True, "table.datalake.format": made.lake},
    )
    write = table.upsert if is_keyed else table.append
    tiered = rows.num_rows - rows.num_rows // TAIL_SHARE
    for batch in rows.slice(0, tiered).to_batches(max_chunksize=BATCH_ROWS):
        write(batch)
    hw.run(lambda client: _tier(client, table))
    for batch in rows.slice(tiered).to_batches(max_chunksize=BATCH_ROWS):
        write(batch)
    final = _change(table, name, rows) if is_keyed and name in UPDATED else rows
    _write_plain(final, made.plain(name))


async def _tier(client: AsyncClient, table: headwater.Table) -> None:
    settings = TieringSettings(rows_max=1 << 40)
    await TieringService(client, LocalRunner(client), settings=settings).run_once(
        tables=[table.path]
    )


def _change(table: headwater.Table, name: str, rows: pa.Table) -> pa.Table:
    """Update and delete, and return the rows that should be there now.

    They are worked out here, not read from the table, so that plain files can prove it wrong.
    """
    column = UPDATED[name]
    where = rows.schema.get_field_index(column)
    picked = pa.array(range(0, rows.num_rows, UPDATE_EVERY))
    gone = pa.array(range(DELETE_FIRST, rows.num_rows, DELETE_EVERY))
    updated = rows.take(picked)
    # One more than the old value, of the same type.
    raised = [value + 1 for value in updated[column].to_pylist()]
    updated = updated.set_column(
        where, rows.schema.field(where), pa.array(raised, rows.schema.field(where).type)
    )
    table.upsert(updated)
    table.delete(rows.take(gone).select(KEYS[name]))
    changed = set(picked.to_pylist()) | set(gone.to_pylist())
    kept = rows.filter(pa.array([number not in changed for number in range(rows.num_rows)]))
    return pa.concat_tables([kept, updated])


def _write_plain(rows: pa.Table, directory: Path) -> None:
    """Write files as many, and with the codec, as the lake has them."""
    directory.mkdir(parents=True)
    files = BUCKETS if rows.num_rows > SMALL_ROWS else 1
    size = -(-rows.num_rows // files)
    for number in range(files):
        path = directory / f"{number:03d}.parquet"
        part = rows.slice(number * size, size)
        pq.write_table(part, path, compression="zstd", compression_level=1)
