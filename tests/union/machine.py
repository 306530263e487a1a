"""Anything may happen to a table; its rows are always those of the oracle."""

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from headwater.errors import LakeSnapshotMissingError, PositionMissingError
from tests.union.reachable import must_work
from tests.union.storage import Storage
from tests.union.story import PARTITION_COLUMN, Position, Story, Traits
from tests.union.wanting import left, terms

DAYS = ("mon", "tue", "wed")
IDS = st.integers(0, 12)
COLUMNS_MAX = 6
GONE = (PositionMissingError, LakeSnapshotMissingError)
values = st.fixed_dictionaries(
    {
        "id": IDS,
        "n": st.none() | st.integers(-2, 14),
        "text": st.none() | st.sampled_from(("", "a", "ab", "b", "ba", "ü")),
        "day": st.sampled_from(DAYS),
    }
)
batches = st.lists(values, min_size=1, max_size=8)
# One number is drawn, however much is chosen with it: the order in which buckets answer may differ
# when a story is told again, and what is drawn may not.
chances = st.integers(0, 9999).map(Random)
traits = st.builds(
    Traits,
    format=st.sampled_from(("iceberg", "paimon")),
    is_keyed=st.booleans(),
    is_partitioned=st.booleans(),
    buckets=st.integers(1, 3),
)


def counted(table) -> Counter:
    """Return how often each row of an Arrow table is there."""
    return Counter(tuple(row.items()) for row in table.to_pylist())


class UnionMachine(RuleBasedStateMachine):
    """Write, tier, compact, expire, cut and alter in any order."""

    storage: Storage
    kind: Traits | None = None
    """What kind of table it is; None: any."""

    @initialize(traits=traits, rows=batches)
    def start(self, traits: Traits, rows) -> None:
        kind = traits if self.kind is None else replace(self.kind, buckets=traits.buckets)
        self.story = Story(self.storage, kind)
        self.extra: list[str] = []
        self.renames = 0
        self.remembered: list[Position] = []
        self.steps = 0
        self.remember()
        self.write(rows)

    @property
    def table(self):
        return self.story.table

    def fitting(self, row):
        """Return a row in the columns that the table has."""
        wanted = set(self.table.schema.names)
        added = dict.fromkeys(self.extra, row["n"])
        text = next(name for name in wanted if name.startswith("text"))
        full = {**row, **added, text: row["text"]}
        return {name: value for name, value in full.items() if name in wanted}

    # ---- writing

    @rule(rows=batches)
    def write(self, rows) -> None:
        self.story.write([self.fitting(row) for row in rows])

    @rule(rows=batches)
    def write_again(self, rows) -> None:
        self.write(rows)

    @precondition(lambda self: self.story.traits.is_keyed)
    @rule(rows=batches)
    def delete(self, rows) -> None:
        keys = self.story.table.info.schema.primary_key
        self.story.delete([{key: self.fitting(row)[key] for key in keys} for row in rows])

    @precondition(lambda self: self.story.traits.is_keyed)
    @rule(rows=batches)
    def update_one_column(self, rows) -> None:
        columns = [*self.story.table.info.schema.primary_key, "n"]
        fitting = [self.fitting(row) for row in rows]
        self.story.update(
            [{name: row[name] for name in columns} for row in fitting], columns=columns
        )

    # ---- columns and partitions

    @precondition(lambda self: len(self.table.schema.names) < COLUMNS_MAX)
    @rule()
    def add_a_column(self) -> None:
        name = f"c{len(self.story.oracle.schemas)}"
        self.story.add_column(name, "BIGINT")
        self.extra.append(name)

    @precondition(lambda self: self.extra)
    @rule()
    def drop_a_column(self) -> None:
        self.story.drop_column(self.extra.pop(0))

    @rule()
    def rename_a_column(self) -> None:
        old = next(name for name in self.table.schema.names if name.startswith("text"))
        self.renames += 1
        self.story.rename_column(old, f"text{self.renames}")

    @precondition(lambda self: self.story.traits.is_partitioned)
    @rule(day=st.sampled_from(DAYS))
    def create_a_partition(self, day: str) -> None:
        self.story.create_partition(day)

    @precondition(lambda self: self.story.live_partitions())
    @rule(chance=chances)
    def drop_a_partition(self, chance) -> None:
        self.story.drop_partition(chance.choice(self.story.live_partitions()))

    # ---- the lake and the log

    @rule()
    def tier(self) -> None:
        self.story.tier()

    @rule(rows=batches)
    def write_and_tier(self, rows) -> None:
        self.write(rows)
        self.story.tier()

    @rule(rows_max=st.integers(1, 5))
    def tier_some(self, rows_max: int) -> None:
        self.story.tier(rows_max=rows_max)

    @rule(reports=st.booleans())
    def compact(self, reports: bool) -> None:
        self.story.compact(reports=reports)

    @rule(keep=st.integers(1, 3))
    def expire_snapshots(self, keep: int) -> None:
        self.story.expire_snapshots(keep=keep)

    @rule(chance=chances)
    def cut_the_log(self, chance) -> None:
        ends = self.story.oracle.ends()
        kept = {bucket: chance.randint(0, 2 * end) for bucket, end in sorted(ends.items(), key=str)}
        self.story.cut(kept=kept)

    # ---- what is read

    @invariant()
    def everything_is_there_once(self) -> None:
        if hasattr(self, "story"):
            assert counted(self.table.scan().to_arrow()) == self.story.expected()

    @invariant()
    def tokens_give_what_they_gave(self) -> None:
        if not hasattr(self, "story"):
            return
        self.steps += 1
        if self.remembered:
            position = self.remembered[self.steps * 5 % len(self.remembered)]
            self.check(position, self.story.expected(position), token=position.token)
        if self.steps % 3 == 1:
            self.remember()

    def remember(self) -> None:
        view = self.table.view()
        now = self.story.now()
        snapshot = view.value.snapshot
        self.remembered.append(
            Position(
                ends=now.ends,
                held=now.held,
                schema_id=now.schema_id,
                live=now.live,
                moment_ms=now.moment_ms,
                token=view.token(),
                snapshot_id=None if snapshot is None else snapshot.snapshot_id,
            )
        )

    @rule()
    def as_many_are_counted_as_there_are(self) -> None:
        assert self.table.count() == self.story.expected().total()

    @rule()
    def everything_is_there_where_memory_is_short(self) -> None:
        table = self.storage.narrow.table(str(self.table.path))
        assert counted(table.scan().to_arrow()) == self.story.expected()

    @rule(data=st.data())
    def a_part_is_there_once(self, data) -> None:
        names = self.table.schema.names
        texts = [name for name in names if name.startswith("text") or name == PARTITION_COLUMN]
        numbers = [name for name in names if name not in texts]
        where = data.draw(st.lists(terms(numbers, texts), max_size=2), label="where")
        columns = data.draw(
            st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True), label="columns"
        )
        limit = data.draw(st.none() | st.integers(0, 6), label="limit")

        found = self.table.scan(columns=columns, where=where or None, limit=limit).to_arrow()

        wanted = left(self.story.expected(), where, columns)
        if limit is None:
            assert counted(found) == wanted
        else:
            assert found.num_rows == min(limit, wanted.total())
            assert counted(found) <= wanted

    @precondition(lambda self: self.remembered)
    @rule(chance=chances)
    def a_moment_gives_what_was_there(self, chance) -> None:
        position = chance.choice(self.remembered)
        if self.story.has_dropped:
            return
        starts = self.story.log_starts()
        position = _without_cut(position, starts)
        expected = self.story.expected(position, schema_id=self.table.info.schema_id)
        self.check(position, expected, as_of=position.moment_ms)

    @rule(chance=chances)
    def offsets_give_what_was_there(self, chance) -> None:
        if self.story.has_dropped:
            return
        places = self.story.places(self.table.offsets())
        now = self.story.now()
        chosen = {
            place: chance.randint(0, now.ends[bucket])
            for place, bucket in sorted(places.items(), key=str)
            if chance.random() < 0.5
        }
        ends = {**now.ends, **{places[place]: end for place, end in chosen.items()}}
        position = Position(ends=ends, held={}, schema_id=now.schema_id, live=now.live)
        self.check(position, self.story.expected(position), offsets=chosen)

    @precondition(lambda self: self.story.snapshots)
    @rule(chance=chances)
    def a_snapshot_gives_what_it_holds(self, chance) -> None:
        snapshot_id, position = chance.choice(list(self.story.snapshots.items()))
        expected = self.story.expected(position, schema_id=self.table.info.schema_id)
        is_kept = snapshot_id in {each.snapshot_id for each in self.story.kept_snapshots()}
        try:
            found = counted(self.table.scan(snapshot_id=snapshot_id).to_arrow())
        except GONE:  # The client may have known it from before, and learn that when it reads.
            assert not is_kept
        else:
            assert found == expected

    @precondition(lambda self: self.story.snapshots)
    @rule()
    def the_lake_alone_gives_what_it_holds(self) -> None:
        position = self.story.snapshots[self.story.head().snapshot_id]
        expected = self.story.expected(position, schema_id=self.table.info.schema_id)

        assert counted(self.table.scan(mode="lake").to_arrow()) == expected

    def check(self, position: Position, expected: Counter, **travel) -> None:
        """Compare the rows of a position, or see that it is gone for a reason."""
        try:
            found = counted(self.table.view(**travel).scan().to_arrow())
        except GONE:
            assert not must_work(self.story, position)
        else:
            assert found == expected


def _without_cut(position: Position, starts) -> Position:
    """Return a position that counts as gone where the log does not reach back to its moment."""
    is_gone = any(0 < start >= position.ends.get(bucket, 0) for bucket, start in starts.items())
    return Position(
        ends=position.ends,
        held={},
        schema_id=position.schema_id,
        live=position.live | ({-1} if is_gone else set()),
        moment_ms=position.moment_ms,
    )
