"""What the lake holds of a table: plans by snapshot, files by place, and pruning."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import not_
from typing import Generic, TypeVar

from headwater import errors
from headwater.cluster.cluster import Cluster
from headwater.lake.lakes import lake_format, lake_spec
from headwater.lake.spi import LakeSnapshot, LakeSource, LakeStorage
from headwater.lake.split import UNKNOWN_BUCKET, ColumnBounds, LakeFile, LakeSplit
from headwater.model import LakeBucket, OffsetRange, Schema, TableInfo
from headwater.model.path import partition_name
from headwater.model.predicate import And, Leaf, LeafFunction, Or, Predicate, columns_of
from headwater.model.types import DoubleType, FloatType
from headwater.read.filters import Filter, bounds_text, filter_text
from headwater.read.offsets import Place
from headwater.read.split import Pruned
from headwater.read.view import TableView
from headwater.rows.statistics import BatchStatistics, ColumnStatistics, may_match
from headwater.runtime.tasks import aside

# What the lake holds of tables, asked once for each snapshot, which never changes.

# Snapshots are a few hundred bytes; a plan has an entry for every file.
SNAPSHOTS_KEPT = 256
PLANS_KEPT = 16

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakePlan:
    """Hold the splits of a snapshot, and what reads them under the schema of a table."""

    source: LakeSource
    splits: tuple[LakeSplit, ...]


class LakePlans:
    """Ask lakes for snapshots and their splits, and keep those that were asked for last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lakes: _Recent[tuple[object, ...], LakeStorage] = _Recent(PLANS_KEPT)
        self._snapshots: _Recent[tuple[int, int], LakeSnapshot] = _Recent(SNAPSHOTS_KEPT)
        self._sources: _Recent[tuple[int, int, int], LakeSource] = _Recent(PLANS_KEPT)
        self._plans: _Recent[tuple[int, int, int], LakePlan] = _Recent(PLANS_KEPT)

    @classmethod
    def of(cls, cluster: Cluster) -> "LakePlans":
        """Return those of a client, shared by all of its reads."""
        return cluster.own(cls, lambda: cls(cluster))

    async def snapshot(self, table: TableInfo, snapshot_id: int) -> LakeSnapshot | None:
        """Return a snapshot; None if it does not exist, or no longer."""
        key = (table.table_id, snapshot_id)
        found = self._snapshots.get(key)
        if found is None:
            found = await aside(self._ask, table, lambda source: source.snapshot(snapshot_id))
            if found is not None:
                self._snapshots.put(key, found)
        return found

    async def newest(self, table: TableInfo) -> LakeSnapshot | None:
        """Return the newest snapshot that the lake has now."""
        return await aside(self._ask, table, lambda source: source.snapshot())

    async def kept(self, table: TableInfo) -> list[LakeSnapshot]:
        """Return the snapshots that the lake has now, newest first."""
        found = await aside(self._ask, table, lambda source: source.snapshots())
        return [] if found is None else found[::-1]

    async def plan(self, table: TableInfo, snapshot_id: int) -> LakePlan:
        """Return the splits of a snapshot, or raise that it is gone."""
        key = (table.table_id, table.schema_id, snapshot_id)
        found = self._plans.get(key)
        if found is None:
            found = await aside(self._plan, table, snapshot_id)
            self._plans.put(key, found)
            self._sources.put(key, found.source)
        return found

    async def source(self, table: TableInfo, snapshot_id: int) -> LakeSource:
        """Return what reads the splits of a snapshot."""
        key = (table.table_id, table.schema_id, snapshot_id)
        found = self._sources.get(key)
        if found is None:
            found = await aside(self._source, table)
            self._sources.put(key, found)
        return found

    def forget(self, table: TableInfo, snapshot_id: int) -> None:
        """Ask anew for a snapshot, which was found to be gone."""
        self._snapshots.drop((table.table_id, snapshot_id))
        key = (table.table_id, table.schema_id, snapshot_id)
        self._plans.drop(key)
        self._sources.drop(key)

    # ---- what blocks

    def _plan(self, table: TableInfo, snapshot_id: int) -> LakePlan:
        source = self._source(table)
        return LakePlan(source=source, splits=tuple(source.plan(snapshot_id)))

    def _ask(self, table: TableInfo, ask: Callable[[LakeSource], V]) -> V | None:
        try:
            return ask(self._source(table))
        except errors.LakeSnapshotMissingError:
            # There is no lake table at all.
            return None

    def _source(self, table: TableInfo) -> LakeSource:
        return self._lake(table).source(lake_spec(table))

    def _lake(self, table: TableInfo) -> LakeStorage:
        """Open the lake of a table, which looks through all installed packages, once."""
        lakes = self._cluster.lakes
        try:
            key = (lakes.opener, lake_format(table), *sorted(lakes.config_of(table).items()))
            lake = self._lakes.get(key)
            if lake is None:
                lake = lakes.of(table)
                self._lakes.put(key, lake)
        except errors.UnsupportedError as fault:
            raise errors.UnsupportedError(
                fault.message, hint=f"{fault.hint} Or read with mode='log'."
            ) from fault
        return lake


class _Recent(Generic[K, V]):
    """Keep what was used last, up to a number of things."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._held: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        self._held[key] = value
        self._held.move_to_end(key)
        while len(self._held) > self._count_max:
            self._held.popitem(last=False)

    def drop(self, key: K) -> None:
        self._held.pop(key, None)


# What lies at one place of a table: the files of the lake, and the log that goes on from them.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceContent:
    """Name what a table holds at one place."""

    place: Place
    """Its bucket is -1 for files of a lake that does not keep rows by bucket."""
    lake: tuple[LakeSplit, ...] = field(default=())
    log_bucket: LakeBucket | None = None
    """None if the storage no longer has the bucket, or that is unknown."""

    @property
    def byte_count(self) -> int:
        """Bytes of all files of the lake in this place."""
        return sum(file.byte_count for split in self.lake for file in split.files)


def places_of(view: TableView, lake: Sequence[LakeSplit]) -> list[PlaceContent]:
    """Return what there is, sorted by partition and bucket."""
    found: dict[Place, PlaceContent] = {}
    for split in lake:
        place = _place_of(split, view)
        before = found.get(place, PlaceContent(place=place))
        found[place] = replace(before, lake=(*before.lake, split))
    for bucket in view.logs:
        place = Place(_name(view, bucket), bucket.bucket)
        found[place] = replace(found.get(place, PlaceContent(place=place)), log_bucket=bucket)
    if view.table.is_keyed:
        _check_buckets(view, found)
    return [found[place] for place in sorted(found, key=_order)]


def tail_of(view: TableView, bucket: LakeBucket) -> OffsetRange:
    """Return the offsets before the position that the lake does not hold, empty if it holds all.

    By key, a bucket that the lake knows nothing of has all of its changes there.
    """
    log, held = view.logs[bucket], tiered(view, bucket)
    unknown_start = 0 if view.table.is_keyed else log.start
    start = unknown_start if held is None else held.end
    return OffsetRange(min(start, log.end), log.end)


def tiered(view: TableView, bucket: LakeBucket) -> OffsetRange | None:
    """Return which offsets of a bucket the snapshot of a view holds; None: knows nothing of it."""
    return None if view.snapshot is None else view.snapshot.ranges.get(bucket)


def check_seam(view: TableView, bucket: LakeBucket) -> None:
    """Refuse a bucket whose log does not go on where the lake ends."""
    log, held = view.logs[bucket], tiered(view, bucket)
    if held is None:
        _check_log(view, bucket, log)
        return
    if held.end > log.end:
        raise errors.LakeAheadError(
            f"The lake holds {shown(view, bucket)} up to offset {held.end}, but the position to"
            f" read is {log.end}.",
            hint="Read a later position, or one that an older snapshot reaches.",
        )
    if held.end < log.end and log.start > held.end:
        raise errors.LogGapError(
            f"The lake holds {shown(view, bucket)} up to offset {held.end}, but its log now"
            f" begins at {log.start}: {log.start - held.end} offsets are in neither.",
            hint="Read what the lake holds with mode='lake', or what the log holds with"
            " mode='log'.",
        )


def shown(view: TableView, bucket: LakeBucket) -> str:
    """Name a bucket for people."""
    name = _name(view, bucket)
    within = "" if name is None else f" of partition {name}"
    return f"bucket {bucket.bucket}{within} of {view.table.path}"


def _check_log(view: TableView, bucket: LakeBucket, log: OffsetRange) -> None:
    # By key, servers tell the rows at the position, or say themselves that they cannot.
    if view.table.is_keyed or log.start <= log.end:
        return
    raise errors.LogGapError(
        f"The position to read is offset {log.end} of {shown(view, bucket)}, whose log now begins"
        f" at {log.start}, and the lake does not hold it.",
        hint="Read a later position.",
    )


def _place_of(split: LakeSplit, view: TableView) -> Place:
    values = dict(split.partition)
    keys = view.table.descriptor.partition_keys
    name = partition_name(values[key] for key in keys) if keys else None
    is_only = view.table.is_keyed and view.table.bucket_count == 1
    return Place(name, 0 if is_only and split.bucket == UNKNOWN_BUCKET else split.bucket)


def _check_buckets(view: TableView, found: Mapping[Place, PlaceContent]) -> None:
    """Refuse a lake whose buckets are not those of the log: changes would miss their rows."""
    for place, held in found.items():
        if not 0 <= place.bucket < view.table.bucket_count:
            raise errors.LakeTableDiffersError(
                f"The lake table of {view.table.path} has a bucket {place.bucket}; the buckets of"
                f" the table are 0 to {view.table.bucket_count - 1}.",
                hint="Read with mode='log'; 'headwater lake drop' lets it be tiered again.",
            )
        if len(held.lake) > 1 and held.log_bucket is not None:
            raise errors.LakeTableDiffersError(
                f"The lake splits bucket {place.bucket} of {view.table.path} into"
                f" {len(held.lake)} pieces, and cannot tell which of them a change is of.",
                hint="Read with mode='log'.",
            )


def _name(view: TableView, bucket: LakeBucket) -> str | None:
    return None if bucket.partition_id is None else view.partitions[bucket.partition_id]


def _order(place: Place) -> tuple[str, int]:
    return place.partition or "", place.bucket


# Which files of a lake can hold rows that a filter wants, told from their bounds.

PLACES_SHOWN_MAX = 8
_DIFFERING = (LeafFunction.NOT_EQUAL, LeafFunction.NOT_IN)


@dataclass(frozen=True, slots=True)
class _Told:
    """Hold a part of a filter that bounds can tell, and the columns that it looks at."""

    predicate: Predicate
    columns: frozenset[int]

    @classmethod
    def of(cls, predicate: Predicate | None, *, floats: set[int]) -> "_Told | None":
        told = _without_differing(predicate, floats)
        return None if told is None else cls(told, frozenset(columns_of(told)))

    def may_match(self, file: LakeFile) -> bool:
        """Return False only if no row of a file matches."""
        if not file.row_count:
            return False
        columns = {
            each.column_id: _statistics(each, file.row_count)
            for each in file.bounds
            if each.column_id in self.columns
        }
        present = self.columns if file.names is None else {number for number, _ in file.names}
        return may_match(
            self.predicate,
            BatchStatistics(columns),
            # One row more than there are: so a count of nulls that is not known is neither none
            # nor all of them.
            record_count=file.row_count + 1,
            absent=self.columns - present,
        )


def _statistics(bounds: ColumnBounds, row_count: int) -> ColumnStatistics:
    nulls = 1 if bounds.null_count is None else bounds.null_count
    is_all = bounds.null_count is not None and nulls >= row_count
    return ColumnStatistics(row_count + 1 if is_all else nulls, bounds.lower, bounds.upper)


@dataclass(frozen=True, slots=True)
class FileTest:
    """Tell from bounds whether files can hold rows that a filter wants."""

    schema: Schema
    wanted: Filter
    told: _Told | None
    """What bounds can tell of all columns."""
    by_key: _Told | None
    """What bounds of key columns can tell, which hold for every version of a row."""

    @classmethod
    def of(cls, wanted: Filter, schema: Schema) -> "FileTest":
        """Find out what of a filter bounds can tell."""
        ids = {column.column_id for column in schema.columns}
        key = {schema.column(name).column_id for name in schema.primary_key}
        floats = {
            column.column_id
            for column in schema.columns
            if isinstance(column.type, FloatType | DoubleType)
        }
        told = _Told.of(wanted.predicate(ids), floats=floats)
        by_key = _Told.of(wanted.predicate(key), floats=floats)
        return cls(schema, wanted, told, by_key)

    def may_hold(self, file: LakeFile) -> bool:
        """Return False only if no row of a file that stands alone is wanted."""
        return self.told is None or self.told.may_match(file)

    def may_hold_key(self, file: LakeFile) -> bool:
        """Return False only if no row of a file is wanted, nor any that replaces one of them."""
        return self.by_key is None or self.by_key.may_match(file)


def _without_differing(predicate: Predicate | None, floats: set[int]) -> Predicate | None:
    """Return what can be told of floats: bounds may leave NaN out, which differs from all."""
    match predicate:
        case None:
            return None
        case Leaf(function=function, column_id=column_id):
            return None if function in _DIFFERING and column_id in floats else predicate
        case And(children=children):
            told = [_without_differing(child, floats) for child in children]
            kept = tuple(child for child in told if child is not None)
            return And(kept) if kept else None
        case Or(children=children):
            told = [_without_differing(child, floats) for child in children]
            kept = tuple(child for child in told if child is not None)
            return Or(kept) if len(kept) == len(told) else None


def wanted_files(held: PlaceContent, test: FileTest) -> tuple[PlaceContent, list[LakeFile]]:
    """Return a place with the files that can hold wanted rows, and those that are left out."""
    kept, left_out = list[LakeSplit](), list[LakeFile]()
    for split in held.lake:
        is_wanted = _are_wanted(split.files, test)
        files = tuple(compress(split.files, is_wanted))
        left_out += compress(split.files, map(not_, is_wanted))
        if files:
            kept.append(replace(split, files=files))
    return (replace(held, lake=tuple(kept)), left_out) if left_out else (held, left_out)


def _are_wanted(files: tuple[LakeFile, ...], test: FileTest) -> list[bool]:
    # Files that do not stand alone belong together: without one, another would show old rows.
    if not any(test.may_hold_key(file) for file in files):
        return [False] * len(files)
    return [not file.stands_alone or test.may_hold(file) for file in files]


def pruned_files(left_out: Mapping[Place, Sequence[LakeFile]], test: FileTest) -> list[Pruned]:
    """Tell which files are left out at each place, or of many places in one."""
    if len(left_out) > PLACES_SHOWN_MAX:
        files = [file for each in left_out.values() for file in each]
        return [_pruned(files, test, at=f" of {len(left_out)} buckets")]
    return [_pruned(files, test, at=_at(place)) for place, files in left_out.items()]


def _pruned(files: Sequence[LakeFile], test: FileTest, *, at: str) -> Pruned:
    name = files[0].path.rpartition("/")[2]
    return Pruned(
        what=f"file …/{name}{at}" if len(files) == 1 else f"{len(files)} files{at}",
        why=_reason(files, test),
        row_count=sum(file.row_count for file in files),
        byte_count=sum(file.byte_count for file in files),
    )


def _reason(files: Sequence[LakeFile], test: FileTest) -> str:
    """Say what is in the file; of several, what is not."""
    if len(files) > 1:
        return f"bounds rule out {filter_text(test.wanted)}"
    known = {each.column_id: each for each in files[0].bounds}
    columns = [test.schema.column(name) for name in test.wanted.columns]
    texts = [
        bounds_text(each, known[each.column_id]) for each in columns if each.column_id in known
    ]
    return ", ".join(texts) or f"it has no {', '.join(test.wanted.columns)}"


def _at(place: Place) -> str:
    within = "" if place.partition is None else f" of partition {place.partition}"
    return within if place.bucket == UNKNOWN_BUCKET else f" of bucket {place.bucket}{within}"
