"""Lake tables of every shape, as tiering leaves them behind."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from headwater.model.arrow import arrow_type
from headwater.model.types import (
    ArrayType,
    BigIntType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from tests.lake.contract.changes import added, dropped, renamed
from tests.lake.contract.samples import SAMPLES
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables

KEY = BigIntType(nullable=False)
TYPES = [kind for kind in SAMPLES if not isinstance(kind, TimeType)]
TIMES = [kind for kind in SAMPLES if isinstance(kind, TimeType)]
NESTED = {
    "id": KEY,
    "tags": ArrayType(element=StringType()),
    "prices": MapType(key=StringType(nullable=False), value=DecimalType(precision=7, scale=2)),
    "place": RowType(
        fields=(
            RowField(name="city", type=StringType(), field_id=20),
            RowField(name="seen", type=ArrayType(element=TimestampType()), field_id=21),
        )
    ),
}


def log(tables: Tables) -> LakeTable:
    table = tables.make(bucket_keys=("id",), bucket_count=3)
    for turn in range(4):
        table.tier(
            [{"id": turn * 9 + at, "name": None if at == 3 else f"n{at}"} for at in range(9)]
        )
    return table


def unbucketed(tables: Tables) -> LakeTable:
    table = tables.make({"id": IntType(), "name": StringType()})
    table.tier([{"id": at, "name": f"n{at}"} for at in range(5)])
    table.commit([], on=table.head())
    table.tier([{"id": 5, "name": "ü"}])
    return table


def keyed(tables: Tables) -> LakeTable:
    table = tables.keyed(bucket_count=2)
    table.tier([{"id": at, "name": "first"} for at in range(30)])
    table.tier([{"id": at, "name": "second"} for at in range(5, 40, 5)])
    table.tier([{"id": at, "name": "?"} for at in range(0, 30, 3)], deleted=[True] * 10)
    table.tier([{"id": at, "name": "third"} for at in (0, 0, 1, 50)])
    table.tier([{"id": 99, "name": "?"}], deleted=[True])
    return table


def partitioned(tables: Tables) -> LakeTable:
    columns = {"id": KEY, "day": DateType(nullable=False), "land": StringType(nullable=False)}
    table = tables.make(
        {**columns, "v": IntType()},
        key=("day", "land", "id"),
        partition_keys=("day", "land"),
        bucket_count=2,
    )
    rows = [
        {"id": at, "day": date(2024, 1, 1 + at % 2), "land": "de" if at % 3 else "fr", "v": at}
        for at in range(24)
    ]
    table.tier(rows)
    table.tier([{**row, "v": -1} for row in rows[:6]])
    table.tier(rows[6:9], deleted=[True] * 3)
    return table


def partitioned_log(tables: Tables) -> LakeTable:
    columns = {"id": KEY, "hour": IntType(nullable=False), "name": StringType()}
    table = tables.make(columns, partition_keys=("hour",))
    for turn in range(3):
        table.tier([{"id": at, "hour": at % 3 + turn, "name": f"{turn}"} for at in range(6)])
    return table


def _evolved(table: LakeTable) -> LakeTable:
    table.tier([{"id": 1, "a": "a1", "b": 1}, {"id": 2, "a": "a2", "b": 2}])
    table = table.evolved(added(renamed(table.spec, "a", "x"), "c", DoubleType()))
    table.tier([{"id": 2, "x": "x2", "b": 2, "c": 0.5}, {"id": 3, "x": "x3", "b": 3, "c": None}])
    table = table.evolved(dropped(table.spec, "b"))
    table.tier([{"id": 4, "x": "x4", "c": 1.5}])
    table = table.evolved(added(table.spec, "b", StringType()))
    table.tier([{"id": 5, "x": "x5", "c": 2.5, "b": "another b"}])
    return table


def evolved(tables: Tables) -> LakeTable:
    return _evolved(tables.make({"id": KEY, "a": StringType(), "b": IntType()}))


def evolved_keyed(tables: Tables) -> LakeTable:
    return _evolved(tables.keyed({"id": KEY, "a": StringType(), "b": IntType()}))


def compacted(tables: Tables) -> LakeTable:
    table = tables.keyed(bucket_count=2)
    for turn in range(8):
        table.tier([{"id": at, "name": f"{turn}"} for at in range(turn, 40, turn + 1)])
    table.tier([{"id": at, "name": "?"} for at in range(7)], deleted=[True] * 7)
    table.compact()
    table.tier([{"id": at, "name": "after"} for at in (3, 20, 41)])
    table.tier([{"id": 21, "name": "?"}], deleted=[True])
    return table


def compacted_log(tables: Tables) -> LakeTable:
    table = tables.make()
    for turn in range(8):
        table.tier([{"id": turn, "name": f"{turn}"}])
    table.compact()
    table.tier([{"id": 100, "name": "after"}])
    return table


def cleaned(tables: Tables) -> LakeTable:
    table = compacted(tables)
    now_ms = table.head().committed_ms + 1000
    keeper = table.keeper
    keeper.merge_manifests(on=table.head())
    keeper.expire(_only_newest(keeper.retention()), now_ms=now_ms)
    keeper.remove_orphans(older_than_ms=now_ms)
    return table


def _only_newest(retention):
    return type(retention)(snapshots_min=1, age_ms=0)


def _typed(tables: Tables, kinds: list[DataType], **options) -> LakeTable:
    columns = {"id": KEY, **{f"c{at}": kind for at, kind in enumerate(kinds)}}
    table = tables.make(columns, **options)
    count = max(len(SAMPLES[kind]) for kind in kinds)
    values = [
        pa.array((SAMPLES[kind] + [None] * count)[:count], arrow_type(kind)) for kind in kinds
    ]
    ids = pa.array(range(count), pa.int64())
    table.tier(pa.record_batch([ids, *values], schema=table.schema))
    return table


def typed(tables: Tables) -> LakeTable:
    return _typed(tables, TYPES)


def typed_keyed(tables: Tables) -> LakeTable:
    return _typed(tables, TYPES, key=("id",))


def times(tables: Tables) -> LakeTable:
    return _typed(tables, TIMES)


def nested(tables: Tables) -> LakeTable:
    table = tables.make(NESTED)
    seen = [datetime(2024, 1, 1, 12, 30, 0, 123456), None]
    table.tier(
        [
            {
                "id": 1,
                "tags": ["a", None, ""],
                "prices": [("x", Decimal("1.50")), ("y", None)],
                "place": {"city": "here", "seen": seen},
            },
            {"id": 2, "tags": [], "prices": [], "place": {"city": None, "seen": None}},
            {"id": 3, "tags": None, "prices": None, "place": None},
        ]
    )
    return table


def odd_names(tables: Tables) -> LakeTable:
    day = StringType(nullable=False)
    columns = {"id": KEY, "the day": day, "ümläut": StringType(), "a.b": IntType(), "1": IntType()}
    table = tables.make(columns, key=("the day", "id"), partition_keys=("the day",))
    rows = [
        {"id": at, "the day": "xy"[at % 2], "ümläut": "ü", "a.b": at, "1": 1} for at in range(6)
    ]
    table.tier(rows)
    table.tier([{**row, "a.b": -1} for row in rows[:2]])
    return table


SHAPES: dict[str, Callable[[Tables], LakeTable]] = {
    made.__name__: made
    for made in (
        log,
        unbucketed,
        keyed,
        partitioned,
        partitioned_log,
        evolved,
        evolved_keyed,
        compacted,
        compacted_log,
        cleaned,
        typed,
        typed_keyed,
        nested,
        odd_names,
    )
}
