"""Rows of a lake and changes of a log as one stream that ascends by key.

All of them come in runs that ascend. Whatever is not above the lowest of the last keys that the
runs have here can be put in order and given away: nothing that comes later is below it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headwater.errors import CorruptFileError
from headwater.read.merge.fold import SHARE, Folded, FoldedInFiles, FoldedInMemory
from headwater.read.merge.keys import Numbers, TableKey, as_filter, as_type, last_places
from headwater.read.merge.order import (
    Limit,
    Stretch,
    StretchRun,
    ascending,
    is_ascending,
    one_after_the_other,
    order_of,
)
from headwater.read.merge.parts import (
    Part,
    SpillFiles,
    SpillRun,
    part_read,
    together,
    with_marks,
)

_ROWS_TOGETHER = 65_536
_ROWS_TOGETHER_MIN = 256


def merged_in_order(
    lake_rows: Iterator[pa.RecordBatch], folded: Folded, *, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table ascending by key, no key twice.

    The rows of the lake ascend by key, and hold the columns that are asked for, all of the fold if
    none are named; the columns of the key are among them. Changes that are in files are put in
    order in further files, which are removed at the end.
    """
    names = list(folded.schema.names if columns is None else columns)
    schema = pa.schema([folded.schema.field(name) for name in names])
    match folded:
        case FoldedInMemory():
            left = folded.without_changed(lake_rows)
            runs = [_in_memory(folded.key, part, names) for part in folded.parts()]
            lake = _lake_run(folded.key, left, schema)
            yield from _merged(folded.key, [lake, *runs], is_distinct=True)
        case FoldedInFiles():
            with SpillFiles(folded.place) as files:
                runs = [_from_file(folded.key, run) for run in _sorted_runs(folded, names, files)]
                lake = _lake_run(folded.key, lake_rows, schema)
                yield from _merged(folded.key, [lake, *runs], is_distinct=False)


def _merged(
    key: TableKey, sources: Sequence[Iterator[Stretch]], *, is_distinct: bool
) -> Iterator[pa.RecordBatch]:
    """Merge runs. Unless their keys are distinct, later runs replace what the first one says."""
    # 0.0 and -0.0 are two keys, neither of which is before the other. Who gave one of them away
    # might miss the other, which comes next.
    with_equal = not any(pa.types.is_floating(kind) for kind in key.types)
    runs = [run for run in map(StretchRun, sources) if run.head is not None]
    while runs:
        limit = _lowest([run.limit for run in runs])
        taken = [run.take(limit, with_equal=with_equal) for run in runs]
        some = [each for each in taken if each is not None]
        if some and (rows := _combined(key, some, is_distinct=is_distinct)).num_rows:
            yield rows
        for run in runs:
            run.go_on(limit)
        runs = [run for run in runs if run.head is not None]


def _lowest(limits: Sequence[Limit | None]) -> Limit | None:
    known = [limit for limit in limits if limit is not None]
    if len(known) <= 1:
        return known[0] if known else None
    columns = [
        pa.array([value.as_py() for value in values], values[0].type)
        for values in zip(*known, strict=True)
    ]
    return known[int(ascending(columns)[0])]


def _combined(key: TableKey, stretches: Sequence[Stretch], *, is_distinct: bool) -> pa.RecordBatch:
    """Put rows in order without those that are replaced or deleted."""
    found = one_after_the_other(stretches)
    is_left = ~found.is_deleted
    if len(stretches) == 1:
        return found.rows if is_left.all() else found.rows.filter(as_filter(is_left))
    if not is_distinct:
        is_last = np.zeros(len(found), np.bool_)
        is_last[last_places(key.columns(found.rows))] = True
        is_left &= is_last
    order = ascending(found.order)
    return found.rows.take(pa.array(order[is_left[order]]))


def _lake_run(
    key: TableKey, batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[Stretch]:
    """Yield the rows of the lake, or say that they do not ascend."""
    before: Stretch | None = None
    for batch in batches:
        columns = [as_type(batch.column(field.name), field.type) for field in schema]
        found = Stretch.of(key, pa.RecordBatch.from_arrays(columns, schema=schema))
        if not len(found):
            continue
        first, _ = found.cut(1)
        ends = found if before is None else one_after_the_other([before, first])
        if not (is_ascending(found.order) and is_ascending(ends.order)):
            raise CorruptFileError(
                "The rows of the lake are not sorted by key, as they should be.",
                hint="Read them unordered, and compact the table.",
            )
        yield found
        _, before = found.cut(len(found) - 1)


def _in_memory(key: TableKey, part: Part, names: Sequence[str]) -> Iterator[Stretch]:
    rows = part.narrowed(names).live()
    order = ascending(order_of(key, rows))
    for taken in _taken(rows, order, _ROWS_TOGETHER):
        yield Stretch.of(key, taken)


def _sorted_runs(
    folded: FoldedInFiles, names: Sequence[str], files: SpillFiles
) -> Iterator[SpillRun]:
    """Write changes in order, as many at a time as memory should hold."""
    share = folded.memory_bytes_max // SHARE
    run_count = folded.byte_count // max(share, 1) + 1
    for part in _larger(folded.parts(), bytes_max=share):
        row_bytes = max(part.byte_count // len(part), 1)
        count = min(max(share // run_count // row_bytes, _ROWS_TOGETHER_MIN), _ROWS_TOGETHER)
        rows = with_marks(part.narrowed(names))
        order = ascending(order_of(folded.key, rows))
        yield files.write(rows.schema, [_taken(rows, order, count)])


def _larger(parts: Iterator[Part], *, bytes_max: int) -> Iterator[Part]:
    """Put parts together as far as they stay within a limit, as fewer runs merge quicker."""
    gathered: list[Part] = []
    for part in parts:
        if gathered and sum(each.byte_count for each in [*gathered, part]) > bytes_max:
            yield together(gathered)
            gathered = []
        gathered.append(part)
    if gathered:
        yield together(gathered)


def _taken(rows: pa.RecordBatch, order: Numbers, count: int) -> Iterator[pa.RecordBatch]:
    """Yield rows in an order, so many at a time."""
    for start in range(0, len(order), count):
        yield rows.take(pa.array(order[start : start + count]))


def _from_file(key: TableKey, run: SpillRun) -> Iterator[Stretch]:
    for rows in run.read(0):
        part = part_read(key, rows)
        yield Stretch.of(key, part.rows, part.is_deleted)
