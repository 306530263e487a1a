"""Random histories of a bucket: rows that a lake holds, and the changes of the log after them."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from headwater.model.arrow import arrow_schema, arrow_type
from headwater.model.bucket import TableBucket
from headwater.model.path import TablePath
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor, TableInfo
from headwater.model.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)
from headwater.read.offsets import LogBatch
from headwater.rows.log_batch import ChangeType

# Values as Arrow holds them: dates are days, times and timestamps are in the unit of their column.
VALUES: dict[DataType, Sequence[object]] = {
    TinyIntType(): range(-4, 4),
    IntType(): range(-9, 9),
    BigIntType(): [*range(9), -(2**63), 2**63 - 1, 10**15],
    StringType(): ["", "a", "aa", "b", "é", "a\x00", "\U0001f600", "long enough for two words"],
    CharType(length=3): ["abc", "abd", "a"],
    BytesType(): [b"", b"\x00", b"\x00\x00", b"\xff", b"nine bytes"],
    BinaryType(length=2): [b"aa", b"ab", b"\x00\x00", b"\xff\xff"],
    BooleanType(): [False, True],
    DateType(): [0, 1, -1, 19_000, 20_000],
    DecimalType(precision=10, scale=2): [Decimal("1.20"), Decimal("-3.00"), Decimal("0.01")],
    DecimalType(precision=38, scale=0): [Decimal(10**37), Decimal(-(10**37)), Decimal(0)],
    FloatType(): [0.0, -0.0, float("nan"), 1.5, -2.5, float("inf"), -float("inf")],
    DoubleType(): [0.0, -0.0, float("nan"), 1.1, -1e300, float("inf"), -float("inf")],
    TimeType(precision=6): [0, 1, 86_399_999_999],
    TimestampType(precision=6): [0, 1, -1, 1_700_000_000_000_001],
    TimestampLtzType(precision=9): [0, -1, 1_700_000_000_000_000_001],
    TimestampLtzType(precision=3): [0, -1, 1_700_000_000_001],
}

Key = tuple[object, ...]
State = dict[Key, tuple[Key, int]]
"""For every key, told apart by its bytes: the key, and the value of its row."""


def table_of(types: Sequence[DataType], *, partitions: int = 0) -> TableInfo:
    """Describe a table whose key columns have some types, after those of partitions."""
    names = [f"k{at}" for at in range(len(types))]
    days = [f"p{at}" for at in range(partitions)]
    keys = [*zip(days, [StringType()] * partitions, strict=True), *zip(names, types, strict=True)]
    columns = [
        Column(name=name, type=each.not_null(), column_id=at)
        for at, (name, each) in enumerate(keys)
    ]
    columns.append(Column(name="v", type=IntType(), column_id=len(columns)))
    schema = Schema(columns=tuple(columns), primary_key=(*days, *names))
    return TableInfo(
        path=TablePath("db", "t"),
        table_id=1,
        schema_id=1,
        descriptor=TableDescriptor(schema=schema, partition_keys=tuple(days)),
        created_ms=0,
        modified_ms=0,
    )


def identity(key: Key) -> Key:
    """Return what tells a key apart, as its bytes do."""
    return tuple(struct.pack("<d", each) if isinstance(each, float) else each for each in key)


def column_of(values: Sequence[object], kind: DataType) -> pa.Array:
    """Return values as Arrow holds them."""
    wanted = arrow_type(kind)
    if pa.types.is_temporal(wanted):
        return pa.array(values, pa.int32() if wanted.bit_width == 32 else pa.int64()).view(wanted)
    return pa.array(values, wanted)


@dataclass
class History:
    """Remember the rows of a lake, the changes since, and the rows that there are."""

    table: TableInfo
    lake: State = field(default_factory=dict)
    state: State = field(default_factory=dict)
    changed: dict[Key, Key] = field(default_factory=dict)
    changes: list[tuple[ChangeType, Key, int]] = field(default_factory=list)

    @property
    def types(self) -> list[DataType]:
        schema = self.table.schema
        return [schema.column(name).type for name in self.table.descriptor.physical_primary_key]

    def put(self, key: Key, value: int | None, *, is_wal: bool) -> None:
        """Write a row, or delete it; a deletion of nothing changes nothing."""
        name = identity(key)
        held = self.state.pop(name, None)
        if value is None and held is None:
            return
        if value is None and held is not None:
            self.changes.append((ChangeType.DELETE, key, held[1]))
        elif value is not None:
            self.state[name] = (key, value)
            if held is not None and not is_wal:
                self.changes.append((ChangeType.UPDATE_BEFORE, key, held[1]))
            kind = ChangeType.INSERT if held is None else ChangeType.UPDATE_AFTER
            self.changes.append((kind, key, value))
        self.changed[name] = key

    def rows(self, state: Sequence[tuple[Key, int]]) -> pa.RecordBatch:
        """Return rows with the columns of the table."""
        days = [pa.array(["day"] * len(state)) for _ in self.table.descriptor.partition_keys]
        keys = [
            column_of([key[at] for key, _ in state], each) for at, each in enumerate(self.types)
        ]
        values = pa.array([value for _, value in state], pa.int32())
        return pa.record_batch([*days, *keys, values], schema=arrow_schema(self.table.schema))

    def batches(self, size: int) -> list[LogBatch]:
        """Return the changes as batches of a log."""
        found = []
        for at in range(0, len(self.changes), size):
            some = self.changes[at : at + size]
            found.append(
                LogBatch(
                    rows=self.rows([(key, value) for _, key, value in some]),
                    changes=np.array([kind for kind, _, _ in some], np.uint8),
                    offsets=np.arange(at, at + len(some)),
                    timestamp_ms=0,
                    bucket=TableBucket(1, 0),
                    partition=None,
                )
            )
        return found

    def lake_batches(self, size: int) -> list[pa.RecordBatch]:
        """Return the rows of the lake."""
        held = list(self.lake.values())
        return [self.rows(held[at : at + size]) for at in range(0, len(held), size)]

    def seen(self, batches: Sequence[pa.RecordBatch]) -> dict[Key, int]:
        """Return the values of rows by their keys, none of which may come twice."""
        found: dict[Key, int] = {}
        for batch in batches:
            for key, value in zip(self.keys_in(batch), batch.column("v").to_pylist(), strict=True):
                assert key not in found
                found[key] = value
        return found

    def keys_in(self, batch: pa.RecordBatch | pa.Table) -> list[Key]:
        """Return what tells the keys of rows apart."""
        columns = []
        for name in self.table.descriptor.physical_primary_key:
            column = batch.column(name)
            if pa.types.is_temporal(column.type):
                column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
            columns.append(column.to_pylist())
        return [identity(key) for key in zip(*columns, strict=True)]


def values_of(state: State) -> dict[Key, int]:
    """Return the values of rows by their keys."""
    return {name: value for name, (_, value) in state.items()}


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw a table, rows that its lake holds, and changes since."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    history = History(table_of(types, partitions=draw(st.integers(0, 1))))
    keys = st.tuples(*(st.sampled_from(VALUES[each]) for each in types))
    for key in draw(st.lists(keys, max_size=30)):
        history.put(key, -1, is_wal=True)
    history.lake = dict(history.state)
    history.changes.clear()
    history.changed.clear()
    is_wal = draw(st.booleans())
    for key, value in draw(st.lists(st.tuples(keys, st.none() | st.integers(0, 99)), max_size=60)):
        history.put(key, value, is_wal=is_wal)
    return history
