"""From the stream to epochs: transactions in the order of their commits, changes by table.

The collector is fed one message after the other, and gathers what an epoch will write. It stops at
what has to be done between two epochs, such as a change of columns. Given the same messages and the
same positions it gathers the same rows; that is what an epoch needs after a crash.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater import errors
from headwater.pipelines.ingest.form import SourceTable
from headwater.pipelines.ingest.journal import SourcePosition
from headwater.pipelines.ingest.postgres import pgoutput
from headwater.pipelines.ingest.postgres.changes import (
    RowChanges,
    TableShape,
    completed,
    key_values,
    places_of,
)
from headwater.pipelines.ingest.postgres.ranges import range_at
from headwater.pipelines.ingest.postgres.server import Visibility


@dataclass(slots=True)
class ReadRanges:
    """Which ranges of a table were read, and what they saw."""

    bounds: list[int]
    done: dict[int, Visibility] = field(default_factory=dict)
    until_lsn: int = 0
    """After this position of the log, no read has seen a transaction; known when all are done."""
    stale: set[int] = field(default_factory=set)
    """Ranges to be read again, once the epoch is written that left a value out."""
    generation: int = 0
    wait_xid: int = 0
    """Ranges are read when all transactions before this one have ended."""

    @property
    def unread(self) -> list[int]:
        """The ranges that are still to be read."""
        return [at for at in range(len(self.bounds) + 1) if at not in self.done]

    def forget_stale(self) -> None:
        """Count stale ranges as unread."""
        for number in self.stale:
            self.done.pop(number, None)
        self.stale.clear()
        self.until_lsn = 0

    @property
    def is_complete(self) -> bool:
        """Tell whether all ranges were read."""
        return len(self.done) > len(self.bounds)


@dataclass(frozen=True, slots=True)
class ColumnsChanged:
    """A table has other columns from here on; to be settled before its next change is taken."""

    relation: pgoutput.RelationMessage


@dataclass(frozen=True, slots=True)
class TablesEmptied:
    """Tables were truncated."""

    tables: tuple[SourceTable, ...]
    commit_lsn: int


Interruption: TypeAlias = ColumnsChanged | TablesEmptied
ShapeOf = Callable[[pgoutput.RelationMessage], TableShape | None]
"""The columns to take of a table as it is described now; None if they are to be settled first."""


@dataclass(slots=True)
class _Followed:
    """A table of the stream, as its last description says."""

    table: SourceTable
    changes: RowChanges
    key: tuple[int, ...]


@dataclass(slots=True)
class Collector:
    """Gathers the changes of an epoch."""

    position: SourcePosition
    """Where the next epoch begins; what lies before is left out."""
    tables: Mapping[SourceTable, ReadRanges]
    shape_of: ShapeOf
    clock: Visibility
    """A recent view of transactions, to complete their numbers."""
    must_see: set[int] = field(default_factory=set)
    end_lsn: int = 0
    """Where the last whole transaction ends."""
    _txn: pgoutput.TxnBegin | None = None
    _taken: int = 0
    _followed: dict[int, _Followed] = field(default_factory=dict)
    _described: dict[int, pgoutput.RelationMessage] = field(default_factory=dict)
    _ignored: set[int] = field(default_factory=set)
    _gathered: list[tuple[SourceTable, RowChanges]] = field(default_factory=list)
    count: int = 0
    """Rows gathered."""

    def feed(self, message: pgoutput.Message) -> Interruption | None:
        """Take a message; an interruption has to be settled, then the same message is fed again."""
        match message:
            case pgoutput.InsertedRow(relation_id, row):
                return self._change(relation_id, row, None, deletes=False)
            case pgoutput.UpdatedRow(relation_id, row, old):
                return self._change(relation_id, row, old, deletes=False)
            case pgoutput.DeletedRow(relation_id, old):
                return self._change(relation_id, old, None, deletes=True)
            case pgoutput.TruncatedTables(relation_ids):
                return self._truncate(relation_ids)
            case _:
                self._note(message)
                return None

    def _note(self, message: pgoutput.Message) -> None:
        """Take a message that is no change."""
        match message:
            case pgoutput.TxnBegin():
                self._txn, self._taken = message, 0
            case pgoutput.TxnCommit():
                self._commit(message)
            case pgoutput.RelationMessage():
                self._described[message.relation_id] = message
            case _:
                pass

    @property
    def is_between(self) -> bool:
        """Tell whether no transaction is open."""
        return self._txn is None

    def take(self) -> list[tuple[SourceTable, RowChanges]]:
        """What was gathered up to the position; gathering goes on with nothing."""
        taken = [each for each in self._gathered if each[1].rows]
        self._gathered, self.count = [], 0
        for followed in self._followed.values():
            before = followed.changes
            followed.changes = RowChanges(before.relation, before.shape)
            self._gathered.append((followed.table, followed.changes))
        return taken

    # ---- transactions

    def _commit(self, message: pgoutput.TxnCommit) -> None:
        at = SourcePosition(message.commit_lsn)
        self.position = max(self.position, at)
        self.end_lsn = max(self.end_lsn, message.end_lsn)
        self._txn = None

    def _here(self) -> tuple[pgoutput.TxnBegin, SourcePosition]:
        """The open transaction, and the position after the next change of it."""
        if self._txn is None:
            raise errors.StorageError("PostgreSQL sent a change outside of a transaction.")
        return self._txn, SourcePosition(self._txn.commit_lsn, self._taken + 1)

    def pass_over(self) -> None:
        """Count a change as taken."""
        _, at = self._here()
        self._taken += 1
        self.position = max(self.position, at)

    # ---- tables

    def _unsettled(self, relation_id: int) -> ColumnsChanged | None:
        """Begin to follow a table as it is described now, unless that has to be settled first."""
        relation = self._described.get(relation_id)
        if relation is None:
            return None
        followed = self._followed.get(relation_id)
        if followed is None or followed.changes.relation != relation:
            if SourceTable(relation.schema, relation.name) not in self.tables:
                self._ignored.add(relation_id)
            elif (shape := self.shape_of(relation)) is None or (followed and followed.changes.rows):
                return ColumnsChanged(relation)
            else:
                self.follow(relation, shape)
        del self._described[relation_id]
        return None

    def follow(self, relation: pgoutput.RelationMessage, shape: TableShape) -> None:
        """Take the changes of a table in this shape from here on."""
        table = SourceTable(relation.schema, relation.name)
        changes = RowChanges(relation, shape)
        self._gathered.append((table, changes))
        key = tuple(places_of(relation, shape.key))
        self._followed[relation.relation_id] = _Followed(table, changes, key)

    def _truncate(self, relation_ids: tuple[int, ...]) -> Interruption | None:
        txn, at = self._here()
        if at > self.position:
            for each in relation_ids:
                if (changed := self._unsettled(each)) is not None:
                    return changed
            found = (self._followed.get(each) for each in relation_ids)
            tables = tuple(each.table for each in found if each is not None)
            if tables:
                return TablesEmptied(tables, txn.commit_lsn)
        self.pass_over()
        return None

    # ---- rows

    def _change(
        self, relation_id: int, row: pgoutput.Row, old: pgoutput.Row | None, *, deletes: bool
    ) -> Interruption | None:
        txn, at = self._here()
        if at > self.position and relation_id not in self._ignored:
            if (changed := self._unsettled(relation_id)) is not None:
                return changed
            if relation_id not in self._ignored:
                self._row(txn, relation_id, completed(row, old), old, deletes=deletes)
        self.pass_over()
        return None

    def _row(
        self,
        txn: pgoutput.TxnBegin,
        relation_id: int,
        row: pgoutput.Row,
        old: pgoutput.Row | None,
        *,
        deletes: bool,
    ) -> None:
        followed = self._followed.get(relation_id)
        if followed is None:
            raise errors.StorageError(
                f"PostgreSQL sent a change of table {relation_id}, and never described it."
            )
        ranges = self.tables[followed.table]
        key = key_values(row, followed.key)
        if old is not None:
            before = key_values(old, followed.key)
            if before != key and self._wants(ranges, txn, before[0], deletes=True):
                self._add(followed.changes, old, deletes=True)
            if before != key and pgoutput.UNCHANGED in row and isinstance(key[0], bytes):
                # The value went with the old key, and only the database still has it.
                ranges.stale.add(range_at(ranges.bounds, key[0]))
        if self._wants(ranges, txn, key[0], deletes=deletes):
            self._add(followed.changes, row, deletes=deletes)

    def _add(self, changes: RowChanges, row: pgoutput.Row, *, deletes: bool) -> None:
        self.count += 1
        if deletes:
            changes.delete(row)
        else:
            changes.upsert(row)

    def _wants(
        self,
        ranges: ReadRanges,
        txn: pgoutput.TxnBegin,
        key: pgoutput.Value,
        *,
        deletes: bool,
    ) -> bool:
        """Tell whether a change is not yet in what was read, and will not be in what is read later.

        In a range that was not read yet, deletes are taken all the same: an attempt that died may
        have written the row.
        """
        if ranges.is_complete and txn.commit_lsn > ranges.until_lsn:
            return True
        assert isinstance(key, bytes)
        seen = ranges.done.get(range_at(ranges.bounds, key))
        if seen is None:
            self.must_see.add(self.clock.full(txn.xid))
            return deletes
        return not seen.saw(txn.xid)
