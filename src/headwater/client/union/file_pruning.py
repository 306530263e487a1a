"""Which files of a lake can hold rows that a filter wants, told from their bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_

from headwater.client.reading.filters import Filter
from headwater.client.reading.log_batch import Place
from headwater.client.union.places import Held
from headwater.client.union.split import Pruned
from headwater.client.union.wording import bounds_text, filter_text
from headwater.lake.split import UNKNOWN_BUCKET, ColumnBounds, LakeFile, LakeSplit
from headwater.model.predicate import And, Leaf, LeafFunction, Or, Predicate, columns_of
from headwater.model.schema import Schema
from headwater.model.types import DoubleType, FloatType
from headwater.rows.pruning import may_match
from headwater.rows.statistics import BatchStatistics, ColumnStatistics

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


def wanted_files(held: Held, test: FileTest) -> tuple[Held, list[LakeFile]]:
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
