"""What a reader takes of a log: which columns, and which batches it can do without."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.errors import CorruptBatchError, StorageError
from headwater.log.log import Log
from headwater.log.reading import StoredBatch
from headwater.model.predicate import Predicate
from headwater.model.schema import Schema
from headwater.rows.log_batch import MAGIC_STATISTICS, read_sections
from headwater.rows.projection import Projection, project_batch
from headwater.rows.pruning import may_match
from headwater.rows.statistics import decode_statistics

# A fetch that prunes looks at so many batches at most before it answers how far it came, and makes
# so many comparisons, but looks at some batches at least.
SCANNED_BATCHES_MAX = 4096
COMPARISONS_MAX = 256 * 1024
SCANNED_BATCHES_MIN = 16
# Batches that nobody checked yet are read whole, so there is a limit on their bytes as well.
UNVERIFIED_BYTES_MAX = 256 * 1024 * 1024
Part = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Selection:
    """Say which columns and rows are wanted; `schema_of` knows every version of the schema."""

    schema_of: Callable[[int], Schema]
    projection_of: Callable[[int], Projection] | None = None
    predicate: Predicate | None = None
    filtered_columns: frozenset[int] = frozenset()
    comparisons: int = 0

    @property
    def takes_everything(self) -> bool:
        """Tell whether stored bytes can be passed on as they are."""
        return self.projection_of is None and self.predicate is None

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
        return Selected([data], len(data)) if data else Selected([])
    parts: list[Part] = []
    size, scanned_up_to, pruned = 0, offset, False
    for batch in _bounded(_intact(log, offset, up_to=up_to), selection.batches_max):
        if selection.predicate is not None and not _may_match(batch, selection):
            scanned_up_to, pruned = batch.header.end_offset, True
            continue
        taken = _cut(batch, selection)
        taken_size = sum(map(len, taken))
        if size + taken_size > bytes_max and (size or not at_least_one):
            break
        parts += taken
        size += taken_size
        scanned_up_to = batch.header.end_offset
        if size >= bytes_max:
            break
    return Selected(parts, size, scanned_up_to if pruned else None)


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


def _cut(batch: StoredBatch, selection: Selection) -> list[Part]:
    if selection.projection_of is None:
        return [batch.read(0, batch.header.size)]
    return project_batch(batch.read, batch.header, selection.projection_of(batch.header.schema_id))


def _may_match(batch: StoredBatch, selection: Selection) -> bool:
    header = batch.header
    if header.magic != MAGIC_STATISTICS or selection.predicate is None:
        return True
    prefix = batch.read(0, min(header.size, 52))
    sections = read_sections(prefix, header)
    if sections.statistics_start == sections.statistics_end:
        return True
    data = batch.read(sections.statistics_start, sections.statistics_end)
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
