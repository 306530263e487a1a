"""Changes of some keys, one for each: in memory, or spilled to files by partition of their keys."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.errors import StorageError
from headwater.read.merge.keys import (
    Columns,
    Find,
    Mask,
    Numbers,
    TableKey,
    Words,
    as_filter,
    finder,
    first_places,
    hashes_of,
    joined,
    last_places,
)
from headwater.rows.log_batch import ChangeType

# One change for each of some keys, in memory.

_BATCH_ROWS = 131_072


@dataclass(frozen=True, eq=False)
class Part:
    """Hold the last change of each of some keys; no key is in it twice."""

    rows: pa.RecordBatch
    is_deleted: Mask
    """Whether the last change of each key took its row away."""
    keys: Columns
    """The keys of the rows, in comparable form."""
    is_new: Mask
    """Whether the first change of each key inserted it, so that the lake cannot hold it."""

    def __len__(self) -> int:
        return len(self.is_deleted)

    @cached_property
    def byte_count(self) -> int:
        """Return the bytes that the changes take in memory."""
        return self.rows.nbytes + self.is_deleted.nbytes + self.is_new.nbytes

    @cached_property
    def find(self) -> Find:
        """Return what tells of rows whether their key is in this part."""
        return finder(self.keys)

    def where(self, mask: Mask) -> "Part":
        """Return the changes for which a mask holds."""
        if mask.all():
            return self
        wanted = as_filter(mask)
        keys = tuple(each.filter(wanted) for each in self.keys)
        return Part(self.rows.filter(wanted), self.is_deleted[mask], keys, self.is_new[mask])

    def divided(self, later: "Part") -> tuple["Part", "Part"]:
        """Return the changes whose key is not in a later part, and those whose key is."""
        is_replaced = later.find(self.keys)
        return self.where(~is_replaced), self.where(is_replaced)

    def after(self, replaced: "Part") -> "Part":
        """Return this part with what it cannot know of keys that an earlier one began with."""
        if not len(replaced):
            return self
        is_new = self.is_new.copy()
        for part, value in (
            (replaced.where(replaced.is_new), True),
            (replaced.where(~replaced.is_new), False),
        ):
            if len(part):
                is_new[part.find(self.keys)] = value
        return replace(self, is_new=is_new)

    def in_lake(self) -> "Part":
        """Return the changes of keys that the lake can hold."""
        return self.where(~self.is_new)

    def narrowed(self, columns: Sequence[str]) -> "Part":
        """Return the changes with some of their columns."""
        return replace(self, rows=self.rows.select(list(columns)))

    def live_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are there after the changes, some at a time."""
        rows = self.live()
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            yield rows.slice(start, _BATCH_ROWS)

    def live(self) -> pa.RecordBatch:
        """Return the rows that are there after the changes."""
        if not self.is_deleted.any():
            return self.rows
        return self.rows.filter(as_filter(~self.is_deleted))


def part_of(
    key: TableKey,
    batches: Sequence[pa.RecordBatch],
    changes: npt.NDArray[np.uint8],
    *,
    tells_new: bool = False,
) -> Part:
    """Keep the last change of each key; `tells_new` if an insert is always one of a new key.

    The row before an update is passed over: an update happens where the row after it stands. So
    where an offset lies between the two, the row is still the one that it was.
    """
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    keys = key.columns(rows)
    is_counted = changes != ChangeType.UPDATE_BEFORE
    counted = np.flatnonzero(is_counted)
    if len(counted) < len(changes):
        some = as_filter(is_counted)
        keys = tuple(each.filter(some) for each in keys)
    last = last_places(keys)
    is_insert = (changes[counted] == ChangeType.INSERT) & tells_new
    is_last = np.zeros(len(changes), np.bool_)
    is_last[counted[last]] = True
    if is_last.all():
        return Part(rows, changes == ChangeType.DELETE, keys, is_insert)
    wanted = pa.array(last)
    last_keys = tuple(each.take(wanted) for each in keys)
    if len(last) == len(counted):
        is_new = is_insert[last]
    else:
        is_new = _begin_with_insert(keys, is_insert, last_keys)
    return Part(
        rows.filter(as_filter(is_last)), changes[is_last] == ChangeType.DELETE, last_keys, is_new
    )


def _begin_with_insert(keys: Columns, is_insert: Mask, wanted: Columns) -> Mask:
    """Tell of every wanted key whether the first of its changes is an insert."""
    if not is_insert.any():
        return np.zeros(len(wanted[0]), np.bool_)
    inserted = as_filter(is_insert)
    # A key without an insert began in the lake, so only the changes of others are looked at.
    may_be_new = finder(tuple(each.filter(inserted) for each in keys))(keys)
    some = as_filter(may_be_new)
    keys, is_insert = tuple(each.filter(some) for each in keys), is_insert[may_be_new]
    first = first_places(keys)
    new = pa.array(first[is_insert[first]])
    if not len(new):
        return np.zeros(len(wanted[0]), np.bool_)
    return finder(tuple(each.take(new) for each in keys))(wanted)


def part_of_none(key: TableKey, schema: pa.Schema) -> Part:
    """Return a part without changes."""
    rows = pa.RecordBatch.from_pylist([], schema=schema)
    none = np.zeros(0, np.bool_)
    return Part(rows, none, key.columns(rows), none)


def latest(parts: Sequence[Part]) -> Part:
    """Make one of parts, of which later ones replace what earlier ones say of their keys."""
    found = together(parts)
    last = last_places(found.keys)
    is_last = np.zeros(len(found), np.bool_)
    is_last[last] = True
    left = found.where(is_last)
    if len(left) == len(found):
        return left
    first = first_places(found.keys)
    is_first = np.zeros(len(found), np.bool_)
    is_first[first] = True
    return left.after(found.where(is_first))


def together(parts: Sequence[Part]) -> Part:
    """Put parts one after the other, which have no key in common unless one is chosen later."""
    if len(parts) == 1:
        return parts[0]
    return Part(
        pa.concat_batches([part.rows for part in parts]),
        np.concatenate([part.is_deleted for part in parts]),
        joined([part.keys for part in parts]),
        np.concatenate([part.is_new for part in parts]),
    )


# Rows in files, by partition of their keys: for what is more than memory should hold.

PARTITION_COUNT = 32
"""How many parts keys are divided into by their hash; a power of two."""
_PARTITION_SHIFT = np.uint64(64 - PARTITION_COUNT.bit_length() + 1)


@dataclass(frozen=True, slots=True)
class SpillPlace:
    """Name a directory in which others are made for rows, and removed again."""

    directory: Path


class SpillFiles:
    """Own a directory of files, which is gone when this is closed or nobody holds it any more."""

    def __init__(self, place: SpillPlace | None) -> None:
        directory = None if place is None else place.directory
        try:
            made = tempfile.mkdtemp(prefix="headwater-spill-", dir=directory)
        except OSError as fault:
            raise _unwritable(fault) from fault
        self.directory = Path(made)
        self._written = 0
        # Also at the end of the process, and if a reader is given up halfway.
        self._remove = weakref.finalize(self, _removed, made, os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files. What was read of them stays."""
        self._remove()

    def write(self, schema: pa.Schema, sections: Iterable[Iterable[pa.RecordBatch]]) -> "SpillRun":
        """Write sections of rows into a file of their own, one after the other."""
        path = self.directory / f"{self._written}.arrow"
        self._written += 1
        try:
            # Not compressed, so that reading takes no memory but that of the system's cache.
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                written = [_section(writer, section) for section in sections]
        except OSError as fault:
            raise _unwritable(fault) from fault
        ends = np.cumsum([0, *(each.batch_count for each in written)]).tolist()
        return SpillRun(
            files=self,
            path=path,
            ends=tuple(ends),
            byte_counts=tuple(each.byte_count for each in written),
            row_count=sum(each.row_count for each in written),
        )


@dataclass(frozen=True, slots=True)
class _Section:
    """Say how much was written."""

    batch_count: int
    byte_count: int
    row_count: int


def _section(writer: pa.RecordBatchFileWriter, batches: Iterable[pa.RecordBatch]) -> _Section:
    batch_count = byte_count = row_count = 0
    for rows in batches:
        writer.write_batch(rows)
        batch_count += 1
        byte_count += rows.nbytes
        row_count += rows.num_rows
    return _Section(batch_count, byte_count, row_count)


@dataclass(frozen=True, slots=True, eq=False)
class SpillRun:
    """Name a file of rows in sections; it stays as long as this does."""

    files: SpillFiles
    path: Path
    ends: tuple[int, ...]
    """At which batch each section begins, and where the last one ends."""
    byte_counts: tuple[int, ...]
    """The bytes of each section."""
    row_count: int

    def read(self, section: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a section."""
        start, end = self.ends[section], self.ends[section + 1]
        if start == end:
            return
        with pa.memory_map(str(self.path)) as source:
            reader = pa.ipc.open_file(source)
            for at in range(start, end):
                yield reader.get_batch(at)


def partitions_of(hashes: Words) -> Numbers:
    """Share keys out by the highest bits of their hashes."""
    partitions: Numbers = (hashes >> _PARTITION_SHIFT).view(np.int64)
    return partitions


def by_partition(rows: pa.RecordBatch, partitions: Numbers) -> Iterator[tuple[pa.RecordBatch, ...]]:
    """Yield the rows of each partition, in their order."""
    order = np.argsort(partitions.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(partitions, minlength=PARTITION_COUNT)).tolist()
    start = 0
    for end in ends:
        taken = order[start:end]
        yield (rows.take(pa.array(taken)),) if len(taken) else ()
        start = end


def _removed(directory: str, owner: int) -> None:
    # A process that was forked off must not take the files away from the one that reads them.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def _unwritable(fault: OSError) -> StorageError:
    return StorageError(
        f"Changes that do not fit in memory cannot be spilled to files: {fault}.",
        hint="Make room in that directory, name another one, or allow more memory.",
    )


# Changes as rows of files, by partition.


def part_written(files: SpillFiles, part: Part) -> SpillRun:
    """Put changes into a file by partition."""
    rows = with_marks(part)
    return files.write(rows.schema, by_partition(rows, partitions_of(hashes_of(part.keys))))


_MARKS = ("is_deleted", "is_new")


def with_marks(part: Part) -> pa.RecordBatch:
    """Return changes as rows; their last columns say what is known of each beside its row."""
    fields = [*part.rows.schema, *(pa.field(name, pa.bool_()) for name in _MARKS)]
    columns = [*part.rows.columns, pa.array(part.is_deleted), pa.array(part.is_new)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def part_read(key: TableKey, rows: pa.RecordBatch) -> Part:
    """Return changes that were written as rows."""
    count = rows.num_columns - len(_MARKS)
    is_deleted, is_new = (
        rows.column(count + at).to_numpy(zero_copy_only=False) for at in range(len(_MARKS))
    )
    rows = rows.select(list(range(count)))
    return Part(rows, is_deleted, key.columns(rows), is_new)
