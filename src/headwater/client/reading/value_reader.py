"""Values of primary-key tables, a schema id and a row each, turned into Arrow columns."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headwater.client.cluster import Cluster
from headwater.client.reading.view import View
from headwater.errors import CorruptBatchError
from headwater.model.arrow import arrow_schema
from headwater.model.schema import Schema
from headwater.rows.compacted.decode import RowDecoder
from headwater.rows.compacted.one_row import OneRowDecoder
from headwater.rows.evolution import decoder_of
from headwater.rows.row_bytes import Longs, RowBytes, overlapping

_ID_BYTES = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Reader:
    """Know how to read rows of one schema, and where the wanted columns stand in them."""

    many: RowDecoder
    single: OneRowDecoder | None
    sources: tuple[int | None, ...]

    def columns(self, rows: RowBytes) -> list[pa.Array]:
        if len(rows) == 1 and self.single is not None:
            found = self.single.decode(rows.to_list()[0])
            if found is not None:
                return found
        return self.many.decode(rows)


class ValueReader:
    """Decode values of any schema version into the columns that a view reads."""

    def __init__(self, cluster: Cluster, view: View) -> None:
        self._cluster = cluster
        self._view = view
        self._schema = arrow_schema(Schema(columns=view.read_columns))
        self._readers: dict[int, _Reader] = {}

    async def prepare(self, values: RowBytes) -> list[int]:
        """Return the schema versions of values, having learnt those that are new."""
        if not len(values):
            return []
        if int(values.lengths.min()) < _ID_BYTES:
            raise CorruptBatchError("A value ends inside its schema id.")
        versions = sorted(set(_versions(values).tolist()))
        for version in versions:
            if version not in self._readers:
                schema = await self._cluster.schema(self._view.table, version)
                position_of = {each.column_id: at for at, each in enumerate(schema.columns)}
                sources = tuple(position_of.get(each.column_id) for each in self._view.read_columns)
                single = OneRowDecoder.of([each.type for each in schema.columns])
                self._readers[version] = _Reader(decoder_of(schema), single, sources)
        return versions

    def read(self, values: RowBytes, versions: list[int]) -> pa.RecordBatch:
        """Return the rows of values whose versions were prepared."""
        if not versions:
            return pa.RecordBatch.from_pylist([], schema=self._schema)
        if len(versions) == 1:
            return self._read_version(values, versions[0])
        of_rows = _versions(values)
        places: list[Longs] = [np.flatnonzero(of_rows == version) for version in versions]
        parts = [
            self._read_version(values.take(rows), version)
            for rows, version in zip(places, versions, strict=True)
        ]
        joined = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        return joined.take(pa.array(np.argsort(np.concatenate(places))))

    def _read_version(self, values: RowBytes, version: int) -> pa.RecordBatch:
        reader = self._readers[version]
        columns = reader.columns(RowBytes(values.data, values.starts + _ID_BYTES, values.ends))
        arrays = [
            pa.nulls(len(values), field.type) if source is None else columns[source]
            for source, field in zip(reader.sources, self._schema, strict=True)
        ]
        return pa.record_batch(arrays, schema=self._schema)


def _versions(values: RowBytes) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    found = overlapping(values.data, np.int16)[values.starts]
    return found.astype(np.int16, copy=False)
