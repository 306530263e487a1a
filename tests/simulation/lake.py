"""A lake that all tierers share: the plain one of the tests of lakes, under the seed's control.

Its snapshots are made by compare-and-swap. Ids and times are drawn and made up, and commits can
fail: before they took effect, or after, so that whoever committed does not know. What is in its
files is kept in memory, too, where it is quicker to read. All that was ever committed is written
down, also what is dropped later, and how often somebody was not let.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.errors import LakeCommitUnknownError, LakeMovedError, LakeUnreachableError
from headwater.lake.lakes import Lakes
from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import Boundary, TieringEpoch, boundary_from_json
from headwater.model.path import TablePath
from headwater.tiering import commit as committing
from headwater.tiering.commit import Decision, Fenced, Moved
from tests.lake import plain_table
from tests.lake.plain_lake import PlainLake, hooks
from tests.lake.plain_table import DataFile, PlainTable, Stored
from tests.simulation.clock import SimClock
from tests.simulation.commits import Committed


class _Id:
    def __init__(self, chance: random.Random) -> None:
        self.hex = chance.randbytes(8).hex()


class SimLake:
    """Own the warehouse, and say when it fails."""

    def __init__(self, directory: Path, clock: SimClock, chance: random.Random) -> None:
        self.faults = 0
        self.commits: list[Committed] = []
        self.contests: Counter[str] = Counter()
        self._fences: dict[TablePath, TieringEpoch] = {}
        self._wanted: Committed | None = None
        self.fault_share = 0.0
        self.directory = directory
        self._clock = clock
        self._chance = chance
        self._rows: dict[str, pa.Table] = {}
        self._snapshots: dict[Path, Stored] = {}
        self._stored = PlainTable.stored
        directory.mkdir()
        self.lakes = Lakes(opener=lambda _name, _config: PlainLake(str(directory)))
        at = hooks(directory)
        at.before_commit, at.after_commit = self._before_commit, self._after_commit

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the plain lake take its time and its names from the seed."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain_table, "uuid4", lambda: _Id(self._chance))
            patch.setattr(plain_table, "SystemClock", lambda: self._clock)
            patch.setattr(plain_table, "pq", self)
            patch.setattr(PlainTable, "snapshot_ids", _snapshot_ids)
            patch.setattr(PlainTable, "stored", _method(self.stored))
            patch.setattr(PlainTable, "put_snapshot", self._watched(PlainTable.put_snapshot))
            patch.setattr(committing, "decide", self._counted(committing.decide))
            yield
        plain_table.HOOKS.pop(str(self.directory), None)

    def write_table(self, rows: pa.Table, path: Path, **named: object) -> None:
        """Write a file, and date it with the made-up time."""
        self._rows[str(path)] = rows
        pq.write_table(rows, path, **named)
        now_ns = self._clock.now_ms() * 1_000_000
        os.utime(path, ns=(now_ns, now_ns))

    def read_table(self, path: str) -> pa.Table:
        """Return the rows of a file that is there."""
        Path(path).stat()
        return self._rows[path]

    def stored(self, table: PlainTable, snapshot_id: int | None = None) -> Stored | None:
        """Return a snapshot that is there, read once."""
        if snapshot_id is None:
            snapshot_id = max(table.snapshot_ids(), default=0)
        path = table._snapshot_file(snapshot_id)
        if not path.exists():
            return None
        if path not in self._snapshots:
            self._snapshots[path] = self._stored(table, snapshot_id)
        return self._snapshots[path]

    def begin_writing(self, table: TablePath, epoch: TieringEpoch) -> None:
        """Hear that somebody believes from now on that nobody of an earlier epoch can commit."""
        self._fences[table] = max(epoch, self._fences.get(table, epoch))

    def _watched(self, put: Callable[..., LakeSnapshot]) -> Callable[..., LakeSnapshot]:
        def watched(
            table: PlainTable, files: Sequence[DataFile], *, on: LakeSnapshot | None, **named: str
        ) -> LakeSnapshot:
            parent_id = None if on is None else on.snapshot_id
            boundary, fence = boundary_from_json(named["boundary"]), self._fences.get(table.path)
            self._wanted = Committed(table.path, parent_id, boundary, fence)
            try:
                return put(table, files, on=on, **named)
            except LakeMovedError:
                self.contests["refused"] += 1
                raise

        return watched

    def _counted(self, decide: Callable[..., Decision]) -> Callable[..., Decision]:
        def counted(wanted: Boundary, **named: object) -> Decision:
            decision = decide(wanted, **named)
            self.contests["moved"] += isinstance(decision, Moved)
            self.contests["fenced"] += isinstance(decision, Fenced)
            return decision

        return counted

    def _before_commit(self) -> None:
        if self._strikes():
            raise LakeUnreachableError("The lake is away.")
        if self._strikes():
            raise LakeCommitUnknownError("The connection broke before the commit.")

    def _after_commit(self) -> None:
        assert self._wanted is not None
        self.commits.append(self._wanted)
        if self._strikes():
            raise LakeCommitUnknownError("The connection broke after the commit.")

    def _strikes(self) -> bool:
        struck = self._chance.random() < self.fault_share
        self.faults += struck
        return struck


def _method(bound: Callable[..., Stored | None]) -> Callable[..., Stored | None]:
    """Return a function that stands in for a method, as a bound one does not."""

    def method(table: PlainTable, snapshot_id: int | None = None) -> Stored | None:
        return bound(table, snapshot_id)

    return method


def _snapshot_ids(table: PlainTable) -> list[int]:
    """Return the ids as the plain lake does, quicker."""
    try:
        with os.scandir(table.place / "snapshots") as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(int(name[:-5]) for name in names if name.endswith(".json"))
