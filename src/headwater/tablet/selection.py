"""What a reader takes of a log: which columns, and which batches it can do without."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headwater.errors import CorruptBatchError, StorageError
from headwater.log.log import Log
from headwater.log.scan import StoredBatch
from headwater.model import Schema
from headwater.model.predicate import Predicate
from headwater.rows import log_batch
from headwater.rows.projection import Projection, Read, project_batch
from headwater.rows.sieve import marker
from headwater.rows.statistics import decode_statistics, may_match

# A fetch that prunes looks at so many batches at most before it answers how far it came, and makes
# so many comparisons, but looks at some batches at least.
SCANNED_BATCHES_MAX = 4096
COMPARISONS_MAX = 256 * 1024
SCANNED_BATCHES_MIN = 16
# Batches that nobody checked yet are read whole, so there is a limit on their bytes as well.
UNVERIFIED_BYTES_MAX = 256 * 1024 * 1024
# Batches are decoded to take rows out, so there is a limit on what is looked at for one answer.
SIFTED_BYTES_MAX = 16 * 1024 * 1024
Part = bytes | memoryview


class RowSieve(Protocol):
    """Take rows and columns out of batches, for readers who may not see all."""

    def sift(self, batch: Part, header: log_batch.BatchHeader) -> Sequence[bytes]:
        """Return what may be seen of a batch; nothing if no row may."""
        ...


class Split(Protocol):
    """Take joined batches apart."""

    def split(self, batch: Part, header: log_batch.BatchHeader, *, offset: int) -> Iterator[bytes]:
        """Yield batches of single times, from the one that holds an offset on."""
        ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Say which columns and rows are wanted; `schema_of` knows every version of the schema.

    Readers that know nothing of joined batches get them taken apart, by `split_joined`.
    """

    schema_of: Callable[[int], Schema]
    projection_of: Callable[[int], Projection] | None = None
    predicate: Predicate | None = None
    filtered_columns: frozenset[int] = frozenset()
    comparisons: int = 0
    split_joined: Callable[[], Split] | None = None
    sieve: RowSieve | None = None
    """Stands for projection and splitting as well."""

    @property
    def takes_everything(self) -> bool:
        """Tell whether stored bytes can be passed on as they are."""
        return self.projection_of is None and self.predicate is None and self.sieve is None

    @property
    def batches_max(self) -> int:
        """Return how many batches to look at before there is an answer."""
        affordable = COMPARISONS_MAX // max(self.comparisons, 1)
        return min(SCANNED_BATCHES_MAX, max(SCANNED_BATCHES_MIN, affordable))


@dataclass(frozen=True, slots=True)
class Selected:
    """Hold what was read, and the offset up to which the log was looked at."""

    parts: list[Part]
    size: int = 0
    pruned_up_to: int | None = None


def select(
    log: Log, offset: int, *, up_to: int, bytes_max: int, selection: Selection, at_least_one: bool
) -> Selected:
    """Read whole batches from `offset` on, cut down to what the selection wants."""
    if selection.takes_everything:
        data = log.read(offset, bytes_max=bytes_max, up_to=up_to, at_least_one=at_least_one)
        if selection.split_joined is None or not _holds_joined(data):
            return Selected([data], len(data)) if data else Selected([])
    if selection.sieve is not None:
        return _sifted(log, offset, up_to=up_to, bytes_max=bytes_max, selection=selection)
    taken = _Taken(bytes_max, at_least_one=at_least_one, up_to=offset)
    for batch in _bounded(_intact(log, offset, up_to=up_to), selection.batches_max):
        if selection.predicate is not None and not _may_match(batch, selection):
            taken.up_to, taken.has_pruned = batch.header.end_offset, True
        elif not all(taken.add(*piece) for piece in _pieces(batch, offset, selection)):
            break
    return Selected(taken.parts, taken.size, taken.up_to if taken.has_pruned else None)


def _sifted(log: Log, offset: int, *, up_to: int, bytes_max: int, selection: Selection) -> Selected:
    """Read batches without what the reader may not see, up to a limit on what is looked at.

    If the last rows are out of sight, a batch without rows tells how far the reader got: there are
    clients that go by nothing else.
    """
    assert selection.sieve is not None
    parts: list[Part] = []
    size = looked_at = seen_up_to = 0
    schema_id, end = 0, offset
    for batch in _bounded(_intact(log, offset, up_to=up_to), selection.batches_max):
        header = batch.header
        schema_id, end = header.schema_id, header.end_offset
        looked_at += header.size
        if selection.predicate is None or _may_match(batch, selection):
            found = selection.sieve.sift(batch.read(0, header.size), header)
            parts += found
            size += sum(map(len, found))
            seen_up_to = log_batch.read_header(found[-1]).end_offset if found else seen_up_to
        if size >= bytes_max or looked_at >= max(SIFTED_BYTES_MAX, bytes_max):
            break
    if end > max(seen_up_to, offset):
        parts.append(marker(end, schema_id=schema_id))
        size += len(parts[-1])
    return Selected(parts, size, end)


def _holds_joined(data: memoryview) -> bool:
    return any(header.is_joined for header, _ in log_batch.iterate(data))


class _Taken:
    """Gather parts of an answer up to its limit."""

    def __init__(self, bytes_max: int, *, at_least_one: bool, up_to: int) -> None:
        self.parts: list[Part] = []
        self.size = 0
        self.up_to = up_to
        self.has_pruned = False
        self._bytes_max = bytes_max
        self._at_least_one = at_least_one

    def add(self, parts: list[Part], end_offset: int) -> bool:
        """Take a batch if it fits; tell whether there may be room for more."""
        size = sum(map(len, parts))
        if self.size + size > self._bytes_max and (self.size or not self._at_least_one):
            return False
        self.parts += parts
        self.size += size
        self.up_to = end_offset
        return self.size < self._bytes_max


def _bounded(batches: Iterator[StoredBatch], batches_max: int) -> Iterator[StoredBatch]:
    unverified_bytes = 0
    for count, batch in enumerate(batches, start=1):
        yield batch
        unverified_bytes += 0 if batch.verified else batch.header.size
        if count == batches_max or unverified_bytes >= UNVERIFIED_BYTES_MAX:
            return


def _intact(log: Log, offset: int, *, up_to: int) -> Iterator[StoredBatch]:
    """Yield batches that are as they were written; damage is raised once it comes first.

    Neither a projected batch, which gets a new checksum, nor statistics, which decide that a
    batch is not read at all, may hide damage to what is stored.
    """
    has_good = False
    try:
        for batch in log.batches(offset, up_to=up_to):
            if not batch.verified:
                _verify(log, batch, up_to=up_to)
            yield batch
            has_good = True
    except StorageError:
        # What is good before something bad is still served; the next read starts at the bad part.
        if not has_good:
            raise


def _verify(log: Log, batch: StoredBatch, *, up_to: int) -> None:
    try:
        batch.verify()
    except CorruptBatchError:
        # A plain read finds the same, sets the segment aside and says which file it was.
        log.read(batch.header.base_offset, bytes_max=0, up_to=up_to)
        raise


def _pieces(
    batch: StoredBatch, offset: int, selection: Selection
) -> Iterator[tuple[list[Part], int]]:
    """Yield what a reader gets of a batch: it as a whole, or a joined one taken apart."""
    header = batch.header
    if not header.is_joined or selection.split_joined is None:
        yield _cut(batch.read, header, selection), header.end_offset
        return
    whole = batch.read(0, header.size)
    for piece in selection.split_joined().split(whole, header, offset=offset):
        part = log_batch.read_header(piece)
        yield _cut(partial(_slice, piece), part, selection), part.end_offset


def _slice(data: bytes, start: int, end: int) -> bytes:
    return data[start:end]


def _cut(read: Read, header: log_batch.BatchHeader, selection: Selection) -> list[Part]:
    if selection.projection_of is None:
        return [read(0, header.size)]
    return project_batch(read, header, selection.projection_of(header.schema_id))


def _may_match(batch: StoredBatch, selection: Selection) -> bool:
    header = batch.header
    if header.magic != log_batch.MAGIC_STATISTICS or selection.predicate is None:
        return True
    prefix = batch.read(0, min(header.size, 52))
    start, end = log_batch.read_statistics_section(prefix, header)
    if start == end:
        return True
    data = batch.read(start, end)
    schema = selection.schema_of(header.schema_id)
    try:
        statistics = decode_statistics(data, schema)
    except CorruptBatchError:
        return True
    return may_match(
        selection.predicate,
        statistics,
        record_count=header.record_count,
        absent=selection.filtered_columns - {column.column_id for column in schema.columns},
    )
