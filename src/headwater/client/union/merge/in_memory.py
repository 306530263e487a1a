"""The last change of each key where memory holds them all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headwater.client.union.merge.bounds import KeyRanges
from headwater.client.union.merge.changed_keys import Find, finder
from headwater.client.union.merge.keys import TableKey, joined
from headwater.client.union.merge.masks import as_filter
from headwater.client.union.merge.part import Part
from headwater.lake.split import LakeFile
from headwater.model.table import TableInfo


@dataclass(frozen=True, eq=False)
class FoldedInMemory:
    """Hold the last change of each key in memory."""

    table: TableInfo
    key: TableKey
    schema: pa.Schema
    held: tuple[Part, ...]
    """No two of them have a key in common."""
    is_spilled: bool = False

    @cached_property
    def key_count(self) -> int:
        """Return how many keys were changed."""
        return sum(map(len, self.held))

    @cached_property
    def byte_count(self) -> int:
        """Return the bytes that the changes take."""
        return sum(part.byte_count for part in self.held)

    def changed_keys(self) -> pa.Table:
        """Return the primary key of every changed row, each once, in no order."""
        names = list(self.key.names)
        batches = [part.rows.select(names) for part in self.held]
        return pa.Table.from_batches(batches, self._schema_of(names))

    def live(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there after the changes, in no order."""
        for part in self.held:
            wanted = part if columns is None else part.narrowed(columns)
            yield from wanted.live_batches()

    def without_changed(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of a lake whose key was not changed, in their order."""
        if not self.key_count:
            yield from rows
            return
        for batch in rows:
            is_changed = self._find(self.key.columns(batch))
            if not is_changed.any():
                yield batch
            elif not is_changed.all():
                yield batch.filter(as_filter(~is_changed))

    def may_touch(self, file: LakeFile) -> bool:
        """Tell whether a changed row may be in a file; True if that is not known."""
        return self.key_count > 0 and self._ranges.may_meet(file)

    def parts(self) -> Iterator[Part]:
        """Yield the changes."""
        return iter(self.held)

    @cached_property
    def _find(self) -> Find:
        return finder(joined([part.keys for part in self.held]))

    @cached_property
    def _ranges(self) -> KeyRanges:
        return KeyRanges.of(self.table, self.changed_keys())

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])
