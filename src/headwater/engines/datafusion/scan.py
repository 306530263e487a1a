"""A view of a table as a view of DataFusion: files read by itself, the rest by Headwater."""

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Table

from headwater.client.sync.view import View
from headwater.client.union.split import NativePlan
from headwater.engines.arrow.dataset import Rows, RowsDataset
from headwater.engines.arrow.union import SplitRows, TailRows
from headwater.engines.datafusion.files import Shape, cast, frames_of, quoted
from headwater.engines.viewing import changed_in


def data_frame(session: SessionContext, view: View) -> DataFrame:
    """Return the rows of a view.

    1. Plan: files that DataFusion reads, changes of the log, and what only Headwater can read.
    2. Scan files, without rows that the log changed. 3. Put the other rows beside them.
    """
    plan = view.native_plan()
    shape = Shape.of(view.value.table.schema.columns, view.schema)
    frames = list(_lake(session, view, plan, shape=shape))
    if plan.tail or not (frames or plan.others):
        frames.append(cast(_read(session, TailRows(view, plan.tail)), shape.schema))
    if plan.others:
        frames.append(cast(_read(session, SplitRows(view, plan.others)), shape.schema))
    return reduce(lambda left, right: left.union(right), frames)


def _read(session: SessionContext, rows: Rows) -> DataFrame:
    return session.read_table(Table(RowsDataset(rows)))


def _lake(
    session: SessionContext, view: View, plan: NativePlan, *, shape: Shape
) -> Iterator[DataFrame]:
    for group in plan.groups:
        frames = frames_of(session, group, shape)
        if not group.is_touched:
            yield from frames
            continue
        changed = view.changed_keys(changed_in(plan.tail, group))
        for frame in frames:
            yield _without(session, frame, changed, key=plan.key)


def _without(
    session: SessionContext, frame: DataFrame, changed: pa.Table, *, key: Sequence[str]
) -> DataFrame:
    """Leave rows with changed keys out; from memory, so that DataFusion knows that they are few."""
    keys = session.read_batches(changed.combine_chunks().to_batches())
    return frame.join(keys, on=[quoted(name) for name in key], how="anti")
