"""Folds of histories, with so much memory that they stay there, or so little that they do not."""

from pathlib import Path

from hypothesis import strategies as st

from headwater.model.arrow import arrow_schema
from headwater.read.merge.fold import Folded, TailFold
from headwater.read.merge.parts import SpillPlace
from tests.client.union.merge.histories import History

PLENTY = 64 * 1024 * 1024
LIMITS = st.sampled_from([PLENTY, 4_000, 300])


def fold_of(
    history: History,
    *,
    limit: int = PLENTY,
    place: Path | None = None,
    tells_new: bool = False,
) -> TailFold:
    """Return a fold without changes."""
    return TailFold(
        history.table,
        arrow_schema(history.table.schema),
        memory_bytes_max=limit,
        tells_new=tells_new,
        spill=None if place is None else SpillPlace(place),
    )


def folded_of(
    history: History,
    *,
    size: int = 7,
    limit: int = PLENTY,
    place: Path | None = None,
    tells_new: bool = False,
) -> Folded:
    """Return what the changes of a history leave."""
    fold = fold_of(history, limit=limit, place=place, tells_new=tells_new)
    for batch in history.batches(size):
        fold.add(batch)
    return fold.folded()
