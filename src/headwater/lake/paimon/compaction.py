"""Deciding which data files are worth rewriting, and rewriting them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from headwater.lake.paimon.data_files import SOURCE_COMPACT, DataFiles
from headwater.lake.paimon.layout import INSERTED, SEQUENCE, FileLayout
from headwater.lake.paimon.manifests import DataFile, Entry
from headwater.lake.paimon.merge import merged_rows
from headwater.lake.paimon.options import number, target_bytes
from headwater.lake.paimon.place import Place
from headwater.lake.paimon.reading import FileReader, wanted_fields
from headwater.lake.paimon.table import PaimonTable
from headwater.runtime.clock import Clock

_SMALL_SHARE = 0.75
_DELETED_SHARE = 0.2

_Path = tuple[str, int]


def worth_rewriting(
    entries: Sequence[Entry], options: Mapping[str, str], *, is_keyed: bool
) -> list[list[Entry]]:
    """Return the files of each rewrite, all of one bucket."""
    ordered = sorted(entries, key=_place)
    buckets = [list(group) for _, group in groupby(ordered, key=_bucket_of)]
    if is_keyed:
        return [bucket for bucket in buckets if _has_many_runs(bucket, options)]
    return [group for bucket in buckets for group in _small_ones(bucket, options)]


def _has_many_runs(entries: Sequence[Entry], options: Mapping[str, str]) -> bool:
    files = [entry.file for entry in entries]
    rows = sum(file.row_count for file in files)
    deleted = sum(file.delete_count for file in files)
    return run_count(files) >= _trigger(options) or deleted > _DELETED_SHARE * rows


def run_count(files: Sequence[DataFile]) -> int:
    """Return how many sorted runs a reader has to merge."""
    levels = {file.level for file in files if file.level > 0}
    return sum(file.level == 0 for file in files) + len(levels)


def _trigger(options: Mapping[str, str]) -> int:
    return number(options, "num-sorted-run.compaction-trigger", default=5)


def top_level(options: Mapping[str, str]) -> int:
    """Return the level of what has been merged with everything."""
    return number(options, "num-levels", default=_trigger(options) + 1) - 1


def _small_ones(entries: Sequence[Entry], options: Mapping[str, str]) -> Iterator[list[Entry]]:
    """Yield neighbours that fit into one file; rows of a bucket keep their order."""
    target = target_bytes(options)
    least = number(options, "compaction.min.file-num", default=5)
    for is_small, group in groupby(
        _with_small_together(entries, target), key=lambda entry: _is_small(entry, target)
    ):
        small = list(group)
        if is_small and len(small) >= least:
            yield from (each for each in _packed(small, target) if len(each) > 1)


def _with_small_together(entries: Sequence[Entry], target: int) -> Sequence[Entry]:
    if entries[0].bucket_count > 0:
        return entries
    return sorted(entries, key=lambda entry: _is_small(entry, target))


def _is_small(entry: Entry, target: int) -> bool:
    return entry.file.byte_count < _SMALL_SHARE * target


def _packed(entries: Sequence[Entry], target: int) -> Iterator[list[Entry]]:
    held: list[Entry] = []
    for entry in entries:
        if held and sum(each.file.byte_count for each in (*held, entry)) > target:
            yield held
            held = []
        held.append(entry)
    if held:
        yield held


def _bucket_of(entry: Entry) -> tuple[bytes, int]:
    return entry.partition, entry.bucket


def _place(entry: Entry) -> tuple[bytes, int, int, str]:
    return (*_bucket_of(entry), entry.file.sequence_min, entry.file.name)


def rewritten(
    table: PaimonTable, place: Place, entries: Sequence[Entry], clock: Clock
) -> list[DataFile]:
    """Write the current rows of files into fewer ones, under the newest of their schemas."""
    is_keyed = table.spec.is_keyed
    # Files may be younger than what is known of the table: none of their fields may get lost.
    newest = max(table.schema.schema_id, *(entry.file.schema_id for entry in entries))
    settings = place.settings(
        schema_id=newest,
        sequence_start=min(entry.file.sequence_min for entry in entries),
        level=top_level(table.schema.options) if is_keyed else 0,
        source=SOURCE_COMPACT,
    )
    files = DataFiles(place.directory, settings, clock)
    wanted = wanted_fields(settings.layout, table.schema_of(newest))
    reader = FileReader(table, wanted, with_system=is_keyed)
    paths = [(table.file_path(entry), entry.file.schema_id) for entry in entries]
    try:
        for rows in _merged(reader, paths, settings.layout) if is_keyed else _all(reader, paths):
            files.write(rows)
        return files.finish()
    except BaseException:
        files.abort()
        raise


def _merged(reader: FileReader, paths: Sequence[_Path], layout: FileLayout) -> Iterator[pa.Table]:
    """Yield the current rows of runs, in the order of their keys."""
    runs = [reader.whole(path, schema_id=schema_id) for path, schema_id in paths]
    rows = merged_rows(runs, layout.keys, is_sorted=True)
    kinds = pa.array(np.full(rows.num_rows, INSERTED, np.int8))
    if rows.num_rows:
        yield layout.keyed(rows.select(layout.fields.names), rows.column(SEQUENCE), kinds)


def _all(reader: FileReader, paths: Sequence[_Path]) -> Iterator[pa.Table]:
    """Yield the rows of files as they stand there."""
    for path, schema_id in paths:
        for batch in reader.batches(path, schema_id=schema_id):
            yield pa.Table.from_batches([batch])
