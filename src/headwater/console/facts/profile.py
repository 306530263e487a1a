"""A sample of a table, and what its columns hold: nulls, distinct values, extremes, spreads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.client.sync.scan import View
from headwater.console.facts.picture import TierBar
from headwater.console.facts.rows import READ_S_MAX
from headwater.runtime.clock import Clock

SAMPLE_ROWS_MAX = 20_000
SHOWN_ROWS = 20
TOP_VALUES = 5
STEPS = 24
_HIGH = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """What a column holds in a sample."""

    name: str
    kind: str
    nulls: int
    distinct: int | None
    least: object
    most: object
    mean: float | None
    top: tuple[tuple[object, int], ...]
    spread: tuple[TierBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """A sample of a table."""

    rows: int
    columns: tuple[ColumnProfile, ...]
    sample: pa.Table
    is_whole: bool
    token: str


def profile_of(view: View, clock: Clock) -> TableProfile:
    """Read the first rows of a view, and profile every column."""
    batches: list[pa.RecordBatch] = []
    rows, deadline_s, is_whole = 0, clock.monotonic() + READ_S_MAX, True
    for batch in view.scan(limit=SAMPLE_ROWS_MAX):
        batches.append(batch)
        rows += batch.num_rows
        if clock.monotonic() > deadline_s:
            is_whole = False
            break
    sample = pa.Table.from_batches(batches, schema=view.schema)
    return TableProfile(
        rows=sample.num_rows,
        columns=tuple(column_profile(name, sample.column(name)) for name in sample.column_names),
        sample=sample.slice(0, SHOWN_ROWS),
        is_whole=is_whole and sample.num_rows < SAMPLE_ROWS_MAX,
        token=view.token(),
    )


def column_profile(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    """Profile one column; nested ones tell only how many are null."""
    kind = column.type
    distinct: int | None = None
    top: tuple[tuple[object, int], ...] = ()
    if not pa.types.is_nested(kind):
        counts = pc.value_counts(column.drop_null())
        distinct, top = len(counts), tuple(_top(counts))
    least = most = None
    if not (pa.types.is_nested(kind) or pa.types.is_boolean(kind)) and len(column):
        least, most = _extremes(column)
    return ColumnProfile(
        name=name,
        kind=str(kind),
        nulls=column.null_count,
        distinct=distinct,
        least=least,
        most=most,
        mean=_mean(column),
        top=top,
        spread=tuple(_spread(column)),
    )


def _top(counts: pa.StructArray) -> Iterable[tuple[object, int]]:
    numbers = counts.field("counts")
    for at in pc.sort_indices(numbers, sort_keys=[("", "descending")])[:TOP_VALUES].to_pylist():
        yield counts.field("values")[at].as_py(), numbers[at].as_py()


def _extremes(column: pa.ChunkedArray) -> tuple[object, object]:
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]


def _mean(column: pa.ChunkedArray) -> float | None:
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not is_number or column.null_count == len(column):
        return None
    return float(pc.mean(column).as_py())


def _spread(column: pa.ChunkedArray) -> Iterable[TierBar]:
    """Draw how numbers and moments are spread between their extremes."""
    numbers = _numbers(column)
    if numbers is None or not len(numbers) or numbers.min() == numbers.max():
        return
    counts, edges = np.histogram(numbers, bins=STEPS)
    yield from _bars(counts.tolist(), edges.tolist())


def _numbers(column: pa.ChunkedArray) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    numbers = column.drop_null().cast(pa.float64()).to_numpy()
    return numbers[np.isfinite(numbers)]


def _bars(counts: Sequence[int], edges: Sequence[float]) -> Iterable[TierBar]:
    most, wide = max(1, *counts), 100 / len(counts)
    for at, count in enumerate(counts):
        high = _HIGH * count / most
        yield TierBar(
            kind="both",
            x=round(at * wide, 3),
            width=round(wide * 0.86, 3),
            y=round(_HIGH - high, 3),
            height=round(high, 3),
            label=f"{edges[at]:.6g} to {edges[at + 1]:.6g}: {count:,}",
        )
