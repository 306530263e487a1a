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
class FileTest:
    """Tell from bounds whether files can hold rows that a filter wants."""

    schema: Schema
    wanted: Filter
    predicate: Predicate | None
    """What bounds can tell of all columns."""
    by_key: Predicate | None
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
        return cls(
            schema,
            wanted,
            _without_differing(wanted.predicate(ids), floats),
            _without_differing(wanted.predicate(key), floats),
        )

    def may_hold(self, file: LakeFile) -> bool:
        """Return False only if no row of a file that stands alone is wanted."""
        return self.predicate is None or _may_match(self.predicate, file)

    def may_hold_key(self, file: LakeFile) -> bool:
        """Return False only if no row of a file is wanted, nor any that replaces one of them."""
        return self.by_key is None or _may_match(self.by_key, file)


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


def _may_match(predicate: Predicate, file: LakeFile) -> bool:
    if not file.row_count:
        return False
    # One row more than there are: so a count of nulls that is not known is neither none nor all.
    count = file.row_count + 1
    columns = {each.column_id: _statistics(each, file.row_count) for each in file.bounds}
    return may_match(
        predicate,
        BatchStatistics(columns),
        record_count=count,
        absent=_absent(predicate, file),
    )


def _statistics(bounds: ColumnBounds, row_count: int) -> ColumnStatistics:
    match bounds.null_count:
        case None:
            nulls = 1
        case count:
            nulls = count + 1 if count >= row_count else count
    return ColumnStatistics(nulls, bounds.lower, bounds.upper)


def _absent(predicate: Predicate, file: LakeFile) -> frozenset[int]:
    """Return the columns that a file does not have."""
    if file.names is None:
        return frozenset()
    present = {column_id for column_id, _ in file.names}
    return frozenset(columns_of(predicate)) - present


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
