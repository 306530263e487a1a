"""Merging a tail into the rows of a lake, in memory, against what plain pyarrow takes for it."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from benchmarks.report import ROUNDS, Report
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import BigIntType, DoubleType, IntType, StringType
from headwater.read.merge.fold import Folded, TailFold
from headwater.read.merge.parts import SpillPlace
from headwater.read.merge.stream import merged_in_order
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType

CHANGES, LAKE_ROWS, WIDE_ROWS = 200_000, 8_000_000, 1_000_000
BATCH_ROWS, LOG_ROWS = 131_072, 2_000
PLENTY, LITTLE = 1 << 30, 16 << 20
KEYS: dict[str, Callable[[np.ndarray], list[pa.Array]]] = {
    "BIGINT, dense": lambda ids: [pa.array(ids)],
    "BIGINT, sparse": lambda ids: [pa.array(ids * 1_000_003)],
    "STRING": lambda ids: [pa.array(ids).cast(pa.string())],
    "BIGINT + STRING": lambda ids: [pa.array(ids % 1000), pa.array(ids // 1000).cast(pa.string())],
}
_TYPES = {pa.int64(): BigIntType(), pa.string(): StringType()}


def table_of(keys: list[pa.Array]) -> TableInfo:
    named = {f"k{at}": _TYPES[column.type] for at, column in enumerate(keys)}
    rest = {"name": StringType(), "amount": DoubleType(), "count": IntType(), "note": StringType()}
    columns = [
        Column(name=name, type=kind, column_id=at)
        for at, (name, kind) in enumerate((named | rest | {"at": BigIntType()}).items())
    ]
    schema = Schema(columns=tuple(columns), primary_key=tuple(named))
    return TableInfo(
        path=TablePath("bench", "merge"),
        table_id=1,
        schema_id=1,
        descriptor=TableDescriptor(schema=schema),
        created_ms=0,
        modified_ms=0,
    )


def rows_of(keys: list[pa.Array]) -> pa.RecordBatch:
    count = len(keys[0])
    numbers = pa.array(np.arange(count))
    columns = [
        *keys,
        pc.binary_join_element_wise("name", numbers.cast(pa.string()), "-"),
        pa.array(np.linspace(0, 1, count)),
        pa.array(np.arange(count, dtype=np.int32)),
        pc.binary_join_element_wise("note", numbers.cast(pa.string()), " "),
        numbers,
    ]
    names = [*(f"k{at}" for at in range(len(keys))), "name", "amount", "count", "note", "at"]
    return pa.record_batch(columns, names=names)


def changed_ids() -> np.ndarray:
    """Return keys of which about one in five comes a second time."""
    ids = np.random.default_rng(1).permutation(LAKE_ROWS)[:156_000]
    return np.concatenate([ids, ids[: CHANGES - len(ids)]])


def folded_of(rows: pa.RecordBatch, table: TableInfo, *, limit: int, place: Path) -> Folded:
    fold = TailFold(table, rows.schema, memory_bytes_max=limit, spill=SpillPlace(place))
    for start in range(0, rows.num_rows, LOG_ROWS):
        some = rows.slice(start, LOG_ROWS)
        changes = np.full(some.num_rows, ChangeType.UPDATE_AFTER, np.uint8)
        offsets = np.arange(start, start + some.num_rows)
        fold.add(LogBatch(some, changes, offsets, 0, TableBucket(1, 0), None))
    return fold.folded()


def plainly_folded(rows: pa.RecordBatch, names: list[str]) -> pa.Table:
    """Keep the last row of each key by a group-by."""
    table = pa.Table.from_batches([rows])
    places = pa.array(np.arange(rows.num_rows))
    last = table.select(names).append_column("place", places).group_by(names, use_threads=False)
    return table.take(last.aggregate([("place", "max")]).column("place_max"))


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds that something takes, of several runs the middle one."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def drained(batches: object) -> int:
    return sum(rows.num_rows for rows in batches)  # type: ignore[attr-defined]


def bench_key(report: Report, kind: str, place: Path) -> None:
    """Fold changes by one kind of key, and leave them out of a lake."""
    make = KEYS[kind]
    rows = rows_of(make(changed_ids()))
    names = [name for name in rows.schema.names if name.startswith("k")]
    table = table_of([rows.column(name) for name in names])
    ours = seconds(lambda: folded_of(rows, table, limit=PLENTY, place=place))
    plain = seconds(lambda: plainly_folded(rows, names))
    report.add(
        f"fold 200k changes, {kind}",
        f"{ours * 1e3:.0f} ms CPU",
        f"{plain * 1e3:.0f} ms",
        f"{plain / ours:.2f}",
    )
    count = LAKE_ROWS if kind.startswith("BIGINT,") else WIDE_ROWS
    ids = np.random.default_rng(2).permutation(LAKE_ROWS)[:count]
    lake = pa.record_batch(make(ids), names=names)
    bench_anti_join(report, kind, folded_of(rows, table, limit=PLENTY, place=place), lake)


def bench_anti_join(report: Report, kind: str, folded: Folded, lake: pa.RecordBatch) -> None:
    """Leave changed rows out of many."""
    batches = [lake.slice(start, BATCH_ROWS) for start in range(0, lake.num_rows, BATCH_ROWS)]
    changed, whole = folded.changed_keys(), pa.Table.from_batches(batches)
    ours = seconds(lambda: drained(folded.without_changed(iter(batches))))
    plain = seconds(
        lambda: whole.join(changed, lake.schema.names, join_type="left anti", use_threads=False)
    )
    report.add(
        f"leave changed rows out of {lake.num_rows / 1e6:.0f} M, {kind}",
        f"{ours / lake.num_rows * 1e9:.0f} ns/row",
        f"{plain / lake.num_rows * 1e9:.0f} ns/row",
        f"{plain / ours:.2f}",
        "≤ 15 ns" if kind.startswith("BIGINT, dense") else "",
    )


def bench_in_order(report: Report, place: Path, *, limit: int) -> None:
    """Merge a lake in key order with a tail."""
    tail = rows_of([pa.array(changed_ids() % WIDE_ROWS)])
    table = table_of([tail.column("k0")])
    folded = folded_of(tail, table, limit=limit, place=place)
    lake = rows_of([pa.array(np.arange(WIDE_ROWS))])
    batches = [lake.slice(start, BATCH_ROWS) for start in range(0, WIDE_ROWS, BATCH_ROWS)]
    ours = seconds(lambda: drained(merged_in_order(iter(batches), folded)))
    live = pa.Table.from_batches(list(folded.live()))
    plain = seconds(lambda: pa.concat_tables([pa.Table.from_batches(batches), live]).sort_by("k0"))
    where = "in files" if folded.is_spilled else "in memory"
    report.add(
        f"merge 1 M rows in key order, tail {where}",
        f"{ours / WIDE_ROWS * 1e9:.0f} ns/row",
        f"{plain / WIDE_ROWS * 1e9:.0f} ns/row to sort",
        f"{plain / ours:.2f}",
    )


def bench_merge(report: Report) -> None:
    """Fold, leave out and merge."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as place:
        for kind in KEYS:
            bench_key(report, kind, Path(place))
        for limit in (PLENTY, LITTLE):
            bench_in_order(report, Path(place), limit=limit)


if __name__ == "__main__":
    lines = Report()
    bench_merge(lines)
    Console(width=120).print(lines.table)
