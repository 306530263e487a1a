"""Tails of log tables as files, which DuckDB reads with those of the lake in one scan.

A union of a scan and a stream hides from its optimizer what one scan shows: how many rows there
are, and that the columns of the first ten rows are better fetched when they are known.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from weakref import finalize

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.client.sync.scan import View
from headwater.lake.split import LakeFile
from headwater.model import LakeBucket, OffsetRange, Schema
from headwater.read.split import FileGroup, LogRange, NativePlan

ROWS_MAX = 1_000_000
"""Rows of a tail that are written; longer ones are streamed."""
BYTES_MAX = 128 * 1024**2
PIECES_FEW = 4
"""Files of a tail above which small ones are put together."""
RETIRED_MAX = 32
"""Files that are kept after their tail, for queries that were planned with them."""
TAILS_MAX = 64
"""Tables whose tails are kept."""
_GROUP_ROWS = 122_880
FileNames = tuple[tuple[int, str], ...]
_Ranges = Mapping[LakeBucket, OffsetRange]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Name a file with the rows between offsets, of every bucket that has some."""

    path: Path
    row_count: int
    ranges: _Ranges


@dataclass(slots=True)
class _Tail:
    """Hold the files of a tail. Together they have each bucket's rows without a gap."""

    lock: Lock = field(default_factory=Lock)
    pieces: list[_Piece] = field(default_factory=list)

    def ranges(self) -> dict[LakeBucket, OffsetRange]:
        """Return what the files hold."""
        found: dict[LakeBucket, OffsetRange] = {}
        for piece in self.pieces:
            for bucket, offsets in piece.ranges.items():
                start = found[bucket].start if bucket in found else offsets.start
                found[bucket] = OffsetRange(start, offsets.end)
        return found


class TailPlace:
    """Own a directory for tails, and remove files some time after their tail."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._retired: list[Path] = []
        self._numbers = count()
        self._lock = Lock()

    def write(self, rows: pa.Table) -> Path | None:
        """Write rows; None if the disk is full, as a stream needs none."""
        path = self._place() / f"{next(self._numbers)}.parquet"
        try:
            path.parent.mkdir(exist_ok=True)
            pq.write_table(
                rows, path, compression="none", use_dictionary=False, row_group_size=_GROUP_ROWS
            )
        except OSError:
            path.unlink(missing_ok=True)
            return None
        return path

    def retire(self, paths: Sequence[Path]) -> None:
        """Remove files later: queries that were planned with them may still read them."""
        with self._lock:
            self._retired += paths
            while len(self._retired) > RETIRED_MAX:
                self._retired.pop(0).unlink(missing_ok=True)

    def _place(self) -> Path:
        with self._lock:
            if self._directory is None:
                self._directory = Path(mkdtemp(prefix="headwater-"))
                finalize(self, _remove, self._directory, os.getpid())
            return self._directory


class TailFiles:
    """Write what is new of a tail, and keep what was written."""

    def __init__(self, place: TailPlace) -> None:
        self._place = place
        self._tails: dict[tuple[int, int, FileNames], _Tail] = {}
        self._lock = Lock()

    def with_tail(self, view: View, plan: NativePlan) -> NativePlan:
        """Return a plan whose tail is in files; or the same if it cannot, or had better not, be.

        1. Find files of the lake that have all columns: the tail is written like these.
        2. Write the rows that came since, and put small files together.
        3. Read all of them as one group with those of the lake.
        """
        table = view.value.table
        names = file_names(table.schema, plan)
        if names is None or plan.others or not plan.tail or table.is_keyed:
            return plan
        # All of them: a log table has no other splits of a log.
        logs = tuple(split for split in plan.tail if isinstance(split, LogRange))
        wanted = _ranges_of(logs)
        if sum(offsets.end - offsets.start for offsets in wanted.values()) > ROWS_MAX:
            return plan
        tail = self._tail((table.table_id, table.schema_id, names))
        with tail.lock:
            if not self._extend(tail, _Source(view, logs, table.schema, names), wanted):
                return plan
            files = [tail_file(piece.path, piece.row_count, names) for piece in tail.pieces]
        groups = (*plan.groups, FileGroup(files=tuple(files), is_touched=False))
        return replace(plan, groups=groups, tail=())

    def _tail(self, key: tuple[int, int, FileNames]) -> _Tail:
        with self._lock:
            if key not in self._tails:
                # With another schema, the files of the one before are not read any more.
                others = [each for each in self._tails if each[0] == key[0]]
                for other in others or list(self._tails)[: len(self._tails) + 1 - TAILS_MAX]:
                    self._retire(self._tails.pop(other).pieces)
            return self._tails.setdefault(key, _Tail())

    def _extend(self, tail: _Tail, source: "_Source", wanted: _Ranges) -> bool:
        """Make the files of a tail hold what is wanted; tell whether they do."""
        held = tail.ranges()
        is_moved = any(
            bucket not in wanted or wanted[bucket].start != held[bucket].start for bucket in held
        )
        if is_moved or not all(piece.path.exists() for piece in tail.pieces):
            # Tiering took over a part, or somebody cleaned up temporary files.
            self._retire(tail.pieces)
            tail.pieces, held = [], {}
        if any(wanted[bucket].end < held[bucket].end for bucket in held):
            return False  # Somebody looked later, and was here before.
        missing = {
            bucket: OffsetRange(held[bucket].end if bucket in held else offsets.start, offsets.end)
            for bucket, offsets in wanted.items()
            if bucket not in held or held[bucket].end < offsets.end
        }
        if missing:
            piece = self._write(source, missing)
            if piece is None:
                return False
            tail.pieces.append(piece)
            self._put_together(tail, source)
        return True

    def _put_together(self, tail: _Tail, source: "_Source") -> None:
        """Write the last pieces as one, as far back as those are not much larger."""
        if len(tail.pieces) <= PIECES_FEW:
            return
        at = len(tail.pieces) - 1
        rows = tail.pieces[at].row_count
        while at and tail.pieces[at - 1].row_count <= 2 * rows:
            at -= 1
            rows += tail.pieces[at].row_count
        last = _Tail(pieces=tail.pieces[at:])
        piece = self._write(source, last.ranges()) if len(last.pieces) > 1 else None
        if piece is not None:
            self._retire(last.pieces)
            tail.pieces[at:] = [piece]

    def _write(self, source: "_Source", ranges: _Ranges) -> _Piece | None:
        rows = source.rows(ranges)
        if rows.nbytes > BYTES_MAX:
            return None
        path = self._place.write(rows)
        return None if path is None else _Piece(path, rows.num_rows, dict(ranges))

    def _retire(self, pieces: Sequence[_Piece]) -> None:
        self._place.retire([piece.path for piece in pieces])


@dataclass(frozen=True, slots=True)
class _Source:
    """Read the rows of a tail under the names that its columns have in files of the lake."""

    view: View
    logs: tuple[LogRange, ...]
    schema: Schema
    names: FileNames

    def rows(self, ranges: _Ranges) -> pa.Table:
        samples = {log.log_bucket: log for log in self.logs}
        splits = [replace(samples[bucket], offsets=offsets) for bucket, offsets in ranges.items()]
        rows = pa.Table.from_batches(self.view.tail_rows(splits), schema=self.view.schema)
        names = dict(self.names)
        return rows.rename_columns([names[column.column_id] for column in self.schema.columns])


def _remove(directory: Path, process: int) -> None:
    if os.getpid() == process:  # A child that was forked leaves it to its parent.
        shutil.rmtree(directory, ignore_errors=True)


def file_names(schema: Schema, plan: NativePlan) -> FileNames | None:
    """Return what columns are called in files that have all of them; None if no file has.

    Where the lake has no files, the columns are called what they are called in the table.
    """
    if not plan.groups:
        return tuple((column.column_id, column.name) for column in schema.columns)
    wanted = {column.column_id for column in schema.columns}
    for group in plan.groups:
        if wanted <= {column_id for column_id, _ in group.names}:
            return group.names
    return None


def _ranges_of(logs: Sequence[LogRange]) -> dict[LakeBucket, OffsetRange]:
    found: dict[LakeBucket, OffsetRange] = {}
    for log in logs:
        held = found.get(log.log_bucket, log.offsets)
        start, end = min(held.start, log.offsets.start), max(held.end, log.offsets.end)
        found[log.log_bucket] = OffsetRange(start, end)
    return found


def tail_file(path: Path, row_count: int, names: FileNames) -> LakeFile:
    """Describe a file of a tail like one of the lake."""
    return LakeFile(
        path=str(path),
        row_count=row_count,
        byte_count=0,
        is_plain=True,
        names=names,
        stands_alone=True,
    )
