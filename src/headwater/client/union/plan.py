"""The plan of a union read: which splits give the rows of a view, and what is left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.client.reading.filters import Filter
from headwater.client.reading.log_batch import Place
from headwater.client.union.file_pruning import FileTest, pruned_files, wanted_files
from headwater.client.union.limiting import enough
from headwater.client.union.places import Held, check_seam, places_of, tail_of, tiered
from headwater.client.union.pruning import chosen_places, possible
from headwater.client.union.split import ReadPlan, Tier, UnionSplit
from headwater.client.union.view import TableView
from headwater.lake.split import LakeFile, LakeSplit
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange

SPLIT_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Say which rows of a view are wanted."""

    filter: Filter | None = None
    partitions: frozenset[str] | None = None
    """The names of the partitions to read; None for all."""
    limit: int | None = None
    split_rows: int = SPLIT_ROWS
    """How many offsets of the log of a log table one task reads."""


def plan_read(view: TableView, lake: Sequence[LakeSplit], selection: Selection) -> ReadPlan:
    """Return the splits that give the wanted rows of a view, each row once.

    `lake` holds all splits of the snapshot of the view.

    1. Put files and logs together by partition and bucket. 2. Leave out places, then files, that
    hold no wanted row. 3. Check that each log goes on where the lake ends. 4. With a limit, stop
    where there are rows enough.
    """
    assert view.snapshot is not None or not lake, "files of no snapshot"
    wanted = possible(selection.filter)
    places, pruned = chosen_places(
        view, places_of(view, lake), partitions=selection.partitions, wanted=wanted
    )
    test = None if wanted is None else FileTest.of(wanted, view.table.schema)
    splits, left_out = list[UnionSplit](), dict[Place, list[LakeFile]]()
    for held in places:
        kept = held
        if held.log_bucket is not None:
            check_seam(view, held.log_bucket)
        if test is not None:
            kept, files = wanted_files(held, test)
            left_out |= {held.place: files} if files else {}
        splits.extend(
            _splits(view, kept, has_rows=bool(held.lake), split_rows=selection.split_rows)
        )
    if test is not None:
        pruned.extend(pruned_files(left_out, test))
    if selection.limit is not None and wanted is None:
        splits, left = enough(splits, selection.limit, is_keyed=view.table.is_keyed)
        pruned.extend(left)
    return ReadPlan(splits=tuple(splits), pruned=tuple(pruned))


def _splits(
    view: TableView, kept: Held, *, has_rows: bool, split_rows: int
) -> Iterator[UnionSplit]:
    if view.table.is_keyed and kept.log_bucket is not None:
        yield from _by_key(view, kept, kept.log_bucket, has_rows=has_rows)
        return
    for split in kept.lake:
        yield _lake_only(kept, split)
    if kept.log_bucket is not None:
        tail = tail_of(view, kept.log_bucket)
        for start in range(tail.start, tail.end, split_rows):
            yield UnionSplit(
                tier=Tier.LOG_ONLY,
                partition=kept.place.partition,
                bucket=kept.place.bucket,
                log_bucket=kept.log_bucket,
                log=OffsetRange(start, min(start + split_rows, tail.end)),
            )


def _by_key(
    view: TableView, kept: Held, bucket: LakeBucket, *, has_rows: bool
) -> Iterator[UnionSplit]:
    """Yield the one split of a bucket with a primary key, if there is anything in it.

    A partition that was dropped and made anew has a new id, of which the lake may know nothing
    yet, while it still has rows of the old one under the same name. Those count as rows that the
    new one began with: all of its changes are the tail. Where its log does not reach back to the
    first of them, its rows as they are at the position stand for them, as they will in the lake
    once it is tiered.
    """
    tail = tail_of(view, bucket)
    files = kept.lake[0] if kept.lake else None
    if tail.start == tail.end:
        if files is not None:
            yield _lake_only(kept, files)
        return
    is_unknown = tiered(view, bucket) is None
    yield UnionSplit(
        tier=Tier.LOG_ONLY if files is None else Tier.HYBRID,
        partition=kept.place.partition,
        bucket=kept.place.bucket,
        lake=files,
        log_bucket=bucket,
        log=tail,
        reads_state=is_unknown and (not has_rows or view.logs[bucket].start > 0),
    )


def _lake_only(held: Held, split: LakeSplit) -> UnionSplit:
    return UnionSplit(
        tier=Tier.LAKE_ONLY,
        partition=held.place.partition,
        bucket=held.place.bucket,
        lake=split,
    )
