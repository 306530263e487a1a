"""Small tables, and a way to fold plain rows through a merge engine."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.config.options import ChangelogImage
from headwater.config.table_options import KvOptions
from headwater.kv.merge.batch import Writes
from headwater.kv.merge.engine import engine_of, fold
from headwater.model.aggregate import AggregateFunction, AggregateKind
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Column, Schema
from headwater.model.types import BigIntType, DataType

SYMBOLS = {1: "+I", 2: "-U", 3: "+U", 4: "-D"}
KEY = Column(name="k", type=BigIntType(nullable=False))


def table(*columns: Column, numbered: str | None = None) -> Schema:
    return Schema(
        columns=(KEY, *columns),
        primary_key=("k",),
        auto_increment=() if numbered is None else (numbered,),
    )


def plain(name: str, data_type: DataType | None = None) -> Column:
    return Column(name=name, type=data_type or BigIntType())


def folded(
    name: str, kind: str, data_type: DataType | None = None, delimiter: str | None = None
) -> Column:
    function = AggregateFunction(AggregateKind.of(kind), delimiter)
    return Column(name=name, type=data_type or BigIntType(), aggregate=function)


@dataclass
class Table:
    """Hold rows by key and merge records into them, one batch at a time."""

    schema: Schema
    properties: dict[str, str] = field(default_factory=dict)
    image: ChangelogImage = ChangelogImage.FULL
    rows: dict[int, tuple] = field(default_factory=dict)
    next_id: int = 1
    asked: list[str] = field(default_factory=list)

    def put(self, records, *, targets=None, overwrite=False):
        """Merge (key, row or None) and return the changes as pairs of symbol and row."""
        options = KvOptions.of(self.properties)
        engine = engine_of(self.schema, options, target_columns=targets, overwrite=overwrite)
        self.asked = []
        keys = list(dict.fromkeys(key for key, _ in records))
        writes = self._writes(records, keys)
        plan = fold(engine, writes, image=self.image, ids=self._ids)
        pool = self._pool(records, keys, plan.combined)
        self._keep(keys, pool, plan.final)
        return [
            (SYMBOLS[kind], pool[source])
            for kind, source in zip(plan.types.tolist(), plan.sources.tolist(), strict=True)
        ]

    def _writes(self, records, keys):
        number_of = {key: number for number, key in enumerate(keys)}
        return Writes(
            key_of=np.array([number_of[key] for key, _ in records], dtype=np.int64),
            is_delete=np.array([row is None for _, row in records], dtype=np.bool_),
            is_held=np.array([key in self.rows for key in keys], dtype=np.bool_),
            written=lambda: self._rows("written", [row for _, row in records]),
            held=lambda: self._rows("held", [self.rows.get(key) for key in keys]),
        )

    def _rows(self, name, rows):
        assert name not in self.asked, "rows are asked for twice"
        self.asked.append(name)
        return batch_of(self.schema, rows)

    def _pool(self, records, keys, combined):
        made = rows_of(combined) if combined is not None else []
        return [self.rows.get(key) for key in keys] + [row for _, row in records] + made

    def _keep(self, keys, pool, final):
        for number, (key, row) in enumerate(zip(keys, final.tolist(), strict=True)):
            if row < 0:
                self.rows.pop(key, None)
            elif row != number:
                self.rows[key] = pool[row]

    def _ids(self, count):
        first, self.next_id = self.next_id, self.next_id + count
        return np.arange(first, first + count)


def batch_of(schema: Schema, rows) -> pa.RecordBatch:
    arrow = arrow_schema(schema)
    columns = [
        pa.array([None if row is None else row[at] for row in rows], type=one.type)
        for at, one in enumerate(arrow)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def rows_of(batch: pa.RecordBatch) -> list[tuple]:
    if not batch.num_columns:
        return []
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
