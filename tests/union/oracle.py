"""What a table holds at any position: a naive fold, row by row, of everything ever written.

Nothing here is told by the code under test but which bucket and offset each change got, and that
is read from the log right after the change was written.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.model.boundary import LakeBucket

Row = Mapping[int, object]
"""Values by the id of their column; a column that is not here is null."""
Ends = Mapping[LakeBucket, int]


@dataclass(frozen=True)
class Change:
    """One change of a bucket's log: a row that came, or a key that went."""

    row: Row
    is_delete: bool = False
    is_ignored: bool = False
    """Whether it only tells what a row was before."""


NOTHING = Change({}, is_ignored=True)


@dataclass
class Columns:
    """The columns of one schema: names by id, in order."""

    names: dict[int, str]

    def shown(self, row: Row) -> tuple[tuple[str, object], ...]:
        return tuple((name, row.get(each)) for each, name in self.names.items())


@dataclass
class Oracle:
    """Everything that was ever written to one table."""

    key: tuple[int, ...] = ()
    """The ids of the key columns; none for a log table."""
    schemas: dict[int, Columns] = field(default_factory=dict)
    logs: dict[LakeBucket, list[Change]] = field(default_factory=dict)
    partitions: dict[int, str] = field(default_factory=dict)
    """The names of all partitions that there ever were."""
    live: set[int | None] = field(default_factory=lambda: {None})

    def add(self, bucket: LakeBucket, change: Change, *, offset: int) -> None:
        """Take in a change at its offset."""
        self.skip(bucket, to=offset)
        self.logs[bucket].append(change)

    def skip(self, bucket: LakeBucket, *, to: int) -> None:
        """Take in that offsets hold no change; by key, those of deletes that found nothing."""
        log = self.logs.setdefault(bucket, [])
        assert self.key or len(log) == to, f"{bucket}: offset {to} after {len(log)} rows"
        assert len(log) <= to, f"{bucket}: offset {to} again"
        log.extend([NOTHING] * (to - len(log)))

    def ends(self) -> dict[LakeBucket, int]:
        """Return how far the logs of all live partitions are."""
        return {
            bucket: len(log)
            for bucket, log in self.logs.items()
            if bucket.partition_id in self.live
        }

    def rows(self, ends: Ends, *, schema_id: int) -> Counter:
        """Return how often each row is there at a position.

        What was under the name of a partition before, as far as the position goes, stands before
        what is under it now.
        """
        columns = self.schemas[schema_id]
        return Counter(columns.shown(row) for row in self._folded(ends))

    def _folded(self, ends: Ends) -> Iterable[Row]:
        if not self.key:
            return [
                change.row
                for bucket, end in ends.items()
                for change in self.logs.get(bucket, [])[:end]
            ]
        held: dict[tuple[object, ...], Row] = {}
        for bucket in sorted(ends, key=_age):
            name = self.partitions.get(bucket.partition_id)
            for change in self.logs.get(bucket, [])[: ends[bucket]]:
                self._apply(held, change, name=name)
        return held.values()

    def _apply(self, held: dict[tuple[object, ...], Row], change: Change, *, name) -> None:
        key = (name, *(change.row.get(each) for each in self.key))
        if change.is_delete:
            held.pop(key, None)
        elif not change.is_ignored:
            held[key] = change.row


def _age(bucket: LakeBucket) -> tuple[int, int]:
    return (bucket.partition_id or 0, bucket.bucket)
