"""Whatever happens to a lake table in any order, every snapshot tells what a model tells."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headwater.errors import HeadwaterError
from headwater.lake.spi import LakeSnapshot, Retention
from headwater.model.types import BigIntType, IntType, StringType
from tests.figures import times
from tests.lake.contract.changes import added, dropped, renamed
from tests.lake.contract.engine import check_split
from tests.lake.formats import PLACE
from tests.lake.lake_table import LakeTable
from tests.lake.tables import Tables

COLUMNS = {"id": BigIntType(nullable=False), "a": StringType(), "b": IntType()}
CHANGES = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=8)
# Values of a row by the id of their column, so that they follow renames.
Row = dict[int, object]


class History(RuleBasedStateMachine):
    """Tier, change columns, compact, expire and lose races; then look at every snapshot."""

    def __init__(self, tables: Tables, *, is_keyed: bool) -> None:
        super().__init__()
        key = ("id",) if is_keyed else ()
        self.table = tables.make(COLUMNS, key=key, bucket_keys=("id",), bucket_count=2)
        self.rows: list[Row] = []
        self.told: dict[int, list[Row]] = {}
        self.turn = 0
        self.stale: list[tuple[LakeTable, object, object]] = []

    @property
    def is_started(self) -> bool:
        return bool(self.told)

    def made_rows(self, changes) -> list[Row]:
        self.turn += 1
        rows = []
        for at, (key, _) in enumerate(changes):
            row: Row = {}
            for column in self.table.spec.schema.columns:
                number = self.turn * 100 + at
                row[column.column_id] = f"v{number}" if column.type == StringType() else number
            row[0] = key
            rows.append(row)
        return rows

    def named(self, rows: list[Row]) -> list[dict[str, object]]:
        columns = self.table.spec.schema.columns
        return [{each.name: row.get(each.column_id) for each in columns} for row in rows]

    def remember(self) -> None:
        newest = self.table.head().snapshot_id
        self.told[newest] = [dict(row) for row in self.rows]
        source = self.table.source
        for split in [] if PLACE else source.plan(newest):
            check_split(source, split, self.table.spec.schema)

    @rule(changes=CHANGES)
    def tier(self, changes) -> None:
        rows = self.made_rows(changes)
        is_keyed = self.table.spec.is_keyed
        deleted = [gone for _, gone in changes] if is_keyed else None
        self.table.tier(self.named(rows), deleted=deleted)
        for row, (key, gone) in zip(rows, changes, strict=True):
            if is_keyed:
                self.rows = [each for each in self.rows if each[0] != key]
            if not (is_keyed and gone):
                self.rows.append(row)
        self.remember()

    @rule(changes=CHANGES)
    def write_and_wait(self, changes) -> None:
        head = self.table.committer.head()
        results = self.table.write(self.named(self.made_rows(changes)), on=head)
        self.stale.append((self.table, results, head))

    @precondition(lambda self: self.stale)
    @rule()
    def commit_too_late(self) -> None:
        table, results, head = self.stale.pop()
        if _is_same(self.table.committer.head(), head):
            return
        with pytest.raises(HeadwaterError):
            table.commit(results, on=head)
        table.committer.abort(results)

    @precondition(lambda self: self.is_started)
    @rule()
    def move_the_boundary_only(self) -> None:
        self.table.commit([], on=self.table.head())
        self.remember()

    @precondition(lambda self: self.is_started)
    @rule()
    def compact(self) -> None:
        head, keeper = self.table.head(), self.table.keeper
        works = keeper.plan_rewrites(on=head)
        if works:
            made = keeper.commit_rewrites([keeper.rewrite(work) for work in works], on=head)
            assert made.boundary == head.boundary
            self.remember()

    @precondition(lambda self: self.is_started)
    @rule()
    def merge_lists(self) -> None:
        if self.table.keeper.merge_manifests(on=self.table.head()) is not None:
            self.remember()

    @precondition(lambda self: self.is_started)
    @rule(kept=st.integers(1, 3))
    def expire(self, kept: int) -> None:
        later = self.table.head().committed_ms + 1000
        self.table.keeper.expire(Retention(snapshots_min=kept, age_ms=0), now_ms=later)
        left = {each.snapshot_id for each in self.table.source.snapshots()}
        assert len(left) <= kept
        self.told = {each: rows for each, rows in self.told.items() if each in left}

    @precondition(lambda self: self.is_started and not self.stale)
    @rule()
    def remove_orphans(self) -> None:
        self.table.keeper.remove_orphans(older_than_ms=self.table.head().committed_ms + 1000)

    @rule(kind=st.sampled_from([StringType(), IntType()]))
    def add_column(self, kind) -> None:
        name = f"n{self.table.spec.schema.highest_field_id}"
        self.table = self.table.evolved(added(self.table.spec, name, kind))

    @rule()
    def rename_column(self) -> None:
        last = self.table.spec.schema.columns[-1].name
        self.turn += 1
        self.table = self.table.evolved(renamed(self.table.spec, last, f"r{self.turn}"))

    @precondition(lambda self: len(self.table.spec.schema.columns) > 2)
    @rule()
    def drop_column(self) -> None:
        column = self.table.spec.schema.columns[1]
        self.table = self.table.evolved(dropped(self.table.spec, column.name))
        for row in [*self.rows, *(row for rows in self.told.values() for row in rows)]:
            row.pop(column.column_id, None)

    @invariant()
    def every_snapshot_is_as_it_was(self) -> None:
        for snapshot_id, rows in self.told.items():
            found = self.table.rows(snapshot_id).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, self.named(rows)))


def _is_same(one: LakeSnapshot | None, other: LakeSnapshot | None) -> bool:
    """Tell whether both are one snapshot; expiry may have taken the one before it."""
    ids = [None if each is None else each.snapshot_id for each in (one, other)]
    return ids[0] == ids[1]


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
def test_every_snapshot_tells_what_a_model_tells(tables, is_keyed):
    run_state_machine_as_test(
        lambda: History(tables, is_keyed=is_keyed),
        settings=settings(max_examples=6, stateful_step_count=12),
    )


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
def test_long_histories_tell_what_a_model_tells(tables, is_keyed):
    run_state_machine_as_test(
        lambda: History(tables, is_keyed=is_keyed),
        settings=settings(max_examples=times(20), stateful_step_count=40),
    )
