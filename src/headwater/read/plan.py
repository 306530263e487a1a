"""The plan of a union read: which splits give the rows of a view, and what is left out.

An engine that reads Parquet files by itself gets the plan divided into files to read natively and
splits to read through Headwater.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from headwater.lake.split import UNKNOWN_BUCKET, LakeFile, LakeSplit
from headwater.model import LakeBucket, OffsetRange
from headwater.read.filters import Filter
from headwater.read.lake import (
    FileTest,
    PlaceContent,
    check_seam,
    places_of,
    pruned_files,
    tail_of,
    tiered,
    wanted_files,
)
from headwater.read.offsets import Place
from headwater.read.prune import chosen_places, possible
from headwater.read.split import (
    FileGroup,
    Hybrid,
    LakeFiles,
    LogPart,
    LogRange,
    NativePlan,
    Pruned,
    ReadPlan,
    Split,
    StateAt,
    rows_max_of,
)
from headwater.read.view import TableView


def enough(
    splits: Sequence[Split], limit: int, *, is_keyed: bool
) -> tuple[list[Split], list[Pruned]]:
    """Return splits that hold so many rows for certain, or all of them, and what is left out."""
    counts = {id(split): rows_at_least(split, is_keyed=is_keyed) for split in splits}
    # Those first of which it is known how many rows they hold.
    ordered = sorted(splits, key=lambda split: counts[id(split)] == 0)
    kept, rows = list[Split](), 0
    for split in ordered:
        if rows >= limit:
            break
        kept.append(split)
        rows += counts[id(split)]
    left = ordered[len(kept) :]
    if not left:
        return list(splits), []
    return kept, [_left_out(left, limit)]


def rows_at_least(split: Split, *, is_keyed: bool) -> int:
    """Return how many rows a split holds for certain."""
    match split:
        case LogRange(offsets=offsets):
            return 0 if is_keyed else offsets.end - offsets.start
        case LakeFiles(files=lake):
            return sum(
                file.row_count for file in lake.files if file.stands_alone and not file.deletes
            )
        case StateAt() | Hybrid():
            return 0
        case other:
            assert_never(other)


def _left_out(splits: Sequence[Split], limit: int) -> Pruned:
    lake = [split.lake for split in splits if split.lake is not None]
    return Pruned(
        what=f"{len(splits)} split{'s' if len(splits) > 1 else ''}",
        why=f"the others hold {limit} rows",
        row_count=sum(map(rows_max_of, splits)),
        byte_count=sum(file.byte_count for each in lake for file in each.files),
    )


# The plan of a union read: which splits give the rows of a view, and what is left out.

SPLIT_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSelection:
    """Say which rows of a view are wanted."""

    filter: Filter | None = None
    partitions: frozenset[str] | None = None
    """The names of the partitions to read; None for all."""
    limit: int | None = None
    split_rows: int = SPLIT_ROWS
    """How many offsets of the log of a log table one task reads."""


def plan_read(view: TableView, lake: Sequence[LakeSplit], selection: ReadSelection) -> ReadPlan:
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
    splits, left_out = list[Split](), dict[Place, list[LakeFile]]()
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
    view: TableView, kept: PlaceContent, *, has_rows: bool, split_rows: int
) -> Iterator[Split]:
    if view.table.is_keyed and kept.log_bucket is not None:
        yield from _by_key(view, kept, kept.log_bucket, has_rows=has_rows)
        return
    for files in kept.lake:
        yield _lake_files(kept, files)
    if kept.log_bucket is not None:
        tail = tail_of(view, kept.log_bucket)
        for start in range(tail.start, tail.end, split_rows):
            offsets = OffsetRange(start, min(start + split_rows, tail.end))
            yield LogRange.of(kept.place, kept.log_bucket, offsets)


def _by_key(
    view: TableView, kept: PlaceContent, bucket: LakeBucket, *, has_rows: bool
) -> Iterator[Split]:
    """Yield the one split of a bucket with a primary key, if there is anything in it.

    A partition that was dropped and made anew has a new id, of which the lake may know nothing
    yet, while it still has rows of the old one under the same name. Those count as rows that the
    new one began with: all of its changes are the tail. Where its log does not reach back to the
    first of them, its rows as they are at the position stand for them, as they will in the lake
    once it is tiered.
    """
    offsets = tail_of(view, bucket)
    files = kept.lake[0] if kept.lake else None
    if offsets.start == offsets.end:
        if files is not None:
            yield _lake_files(kept, files)
        return
    is_unknown = tiered(view, bucket) is None
    tail: LogPart = LogRange.of(kept.place, bucket, offsets)
    if is_unknown and (not has_rows or view.logs[bucket].start > 0):
        tail = StateAt.of(kept.place, bucket, offsets.end)
    yield tail if files is None else Hybrid(files=files, tail=tail)


def _lake_files(kept: PlaceContent, files: LakeSplit) -> LakeFiles:
    return LakeFiles(partition=kept.place.partition, bucket=kept.place.bucket, files=files)


# A plan divided for an engine that reads Parquet files by itself.

LOCAL = "file"
LOCAL_ONLY = frozenset({LOCAL})

IsTouched = Callable[[Hybrid, LakeFile], bool]


def native_plan(
    plan: ReadPlan,
    *,
    key: tuple[str, ...],
    is_touched: IsTouched,
    schemes: frozenset[str] = LOCAL_ONLY,
    tells_keys_apart: bool = True,
) -> NativePlan:
    """Divide a plan; `is_touched` tells whether a file of a HYBRID split can hold a changed key.

    Files whose rows the tail may replace are read by the engine only if all of their split are:
    otherwise the reader, which has to fold the tail for the others, would give its rows twice.
    Engines take 0.0 and -0.0 for one key, and know several kinds of NaN or one: with such keys
    `tells_keys_apart` is False, and touched files are left to the reader.
    """
    divided = _Divided(is_touched=is_touched, schemes=schemes, tells_keys_apart=tells_keys_apart)
    for split in plan.splits:
        divided.add(split)
    return NativePlan(
        groups=tuple(each.group(files) for each, files in divided.groups.items()),
        tail=tuple(divided.tail),
        others=tuple(divided.others),
        key=key,
    )


def scheme_of(path: str) -> str:
    """Return the scheme of the place where a file lies."""
    return LOCAL if path.startswith("/") else path.partition(":")[0]


def local_path(path: str) -> str:
    """Return the path of a local file without its scheme, as file systems know it."""
    assert scheme_of(path) == LOCAL, path
    # By hand, since a path may hold what would mean something in an address, such as '#'.
    rest = path.removeprefix(f"{LOCAL}:")
    if not rest.startswith("//"):
        return rest
    return "/" + rest.removeprefix("//").partition("/")[2]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Say what files that are read in one go have in common."""

    names: tuple[tuple[int, str], ...] | None
    has_deletes: bool
    is_touched: bool
    # Of touched files also where they are: only the keys changed there have to be looked for.
    partition: tuple[tuple[str, str], ...] = ()
    bucket: int = UNKNOWN_BUCKET

    def group(self, files: Iterable[LakeFile]) -> FileGroup:
        return FileGroup(
            files=tuple(files),
            is_touched=self.is_touched,
            partition=self.partition,
            bucket=self.bucket,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Divided:
    is_touched: IsTouched
    schemes: frozenset[str]
    tells_keys_apart: bool
    groups: dict[_Alike, list[LakeFile]] = field(default_factory=dict)
    tail: list[Split] = field(default_factory=list)
    others: list[Split] = field(default_factory=list)

    def add(self, split: Split) -> None:
        match split:
            case LogRange() | StateAt():
                self.tail.append(split)
            case LakeFiles():
                self._add_lake(split)
            case Hybrid():
                self._add_hybrid(split)
            case other:
                assert_never(other)

    def _add_lake(self, split: LakeFiles) -> None:
        # What an engine can read stands alone, so that the others do not miss it.
        others = tuple(file for file in split.files.files if not self._is_native(file))
        for file in filter(self._is_native, split.files.files):
            self._group(file, _Alike(file.names, bool(file.deletes), is_touched=False))
        if others:
            self.others.append(replace(split, files=replace(split.files, files=others)))

    def _add_hybrid(self, split: Hybrid) -> None:
        lake = split.files
        if not all(map(self._is_native, lake.files)):
            self.others.append(split)
            return
        touched = [self.is_touched(split, file) for file in lake.files]
        if any(touched) and not self.tells_keys_apart:
            self.others.append(split)
            return
        self.tail.append(split)
        for file, is_touched in zip(lake.files, touched, strict=True):
            alike = _Alike(file.names, bool(file.deletes), is_touched)
            here = replace(alike, partition=lake.partition, bucket=split.bucket)
            self._group(file, here if is_touched else alike)

    def _group(self, file: LakeFile, alike: _Alike) -> None:
        self.groups.setdefault(alike, []).append(file)

    def _is_native(self, file: LakeFile) -> bool:
        return file.is_native and all(
            scheme_of(path) in self.schemes for path in (file.path, *file.deletes)
        )
