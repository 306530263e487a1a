"""Rows in files, by partition of their keys: for what is more than memory should hold."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from headwater.client.union.merge.changed_keys import Numbers
from headwater.client.union.merge.keys import Words
from headwater.errors import StorageError

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
    """Return the partition of each key."""
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
        f"Changes that are too many for memory cannot be put into files: {fault}.",
        hint="Make room in that directory, name another one, or allow more memory.",
    )
