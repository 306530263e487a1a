"""What a lake format has to offer. Formats register under the entry point `headwater.lake`.

A plugin is a function that opens a lake:

    def open_lake(config: Mapping[str, str]) -> LakeStorage

The roles, and where they run:

    LakeStorage    anywhere   one catalog of one format; pickles, so that it travels to workers
    LakeCatalog    driver     makes lake tables and brings their columns up to date
    LakeCommitter  driver     plans what writers need, and makes their results visible
    LakeWriter     worker     turns rows of one bucket into files that nobody sees yet
    LakeSource     anywhere   plans splits of a snapshot, and reads them
    LakeKeeper     both       compacts, expires and cleans

Every method may block. Every one may raise `LakeUnreachableError` where the lake cannot be reached
or written; what else it raises is said there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.lake.split import LakeSplit
from headwater.lake.table import LakeTableSpec
from headwater.model.boundary import Boundary
from headwater.model.path import TablePath
from headwater.model.predicate import Predicate

ColumnPath = tuple[str, ...]
PartitionValues = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSnapshot:
    """Tell what a reader or committer may want to know of a snapshot."""

    snapshot_id: int
    parent_id: int | None
    committed_ms: int
    boundary: Boundary | None
    """That of the snapshot, else of the nearest one before it; None if nobody ever tiered."""
    row_count: int
    """Rows in its files; with rows by key, deleted and replaced ones may count too."""
    file_count: int
    byte_count: int
    properties: Mapping[str, str] = field(default_factory=dict)
    taken: str = ""
    """What others took away of the rows that tierers brought, up to here; nothing if empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Say where a writer writes; made by a committer, small, pickles."""

    partition: PartitionValues
    bucket: int
    payload: bytes = field(repr=False)
    """What the format's own writer needs beside: metadata, files that hold older rows, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """Name the files that a writer wrote, not visible yet; small, pickles."""

    partition: PartitionValues
    bucket: int
    row_count: int
    file_count: int
    byte_count: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Say what a source does with filters."""

    accepted: tuple[Predicate, ...]
    """Those it uses to leave files or rows out. Rows that do not pass may still come."""
    remaining: tuple[Predicate, ...]
    """Those that the reader still has to apply to every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Name files that one task turns into fewer ones; made by a keeper, pickles."""

    partition: PartitionValues
    bucket: int
    file_count: int
    byte_count: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Say which snapshots stay, beside those that tags and branches name."""

    snapshots_min: int
    """The newest ones that stay however old they are."""
    age_ms: int
    """Younger ones stay however many they are: readers may hold them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Tell what a clean-up removed."""

    snapshots: int = 0
    data_files: int = 0
    metadata_files: int = 0
    byte_count: int = 0


@dataclass(frozen=True, slots=True)
class LostFile:
    """Name a file that a snapshot needs and that is not as it has to be."""

    path: str
    snapshot_id: int
    """The first of the snapshots that need it."""
    fault: str
    """What is the matter with it, to be said behind its name: "is gone"."""


@dataclass(frozen=True, slots=True)
class StrayFile:
    """Name a file that no snapshot needs."""

    path: str
    age_ms: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeInventory:
    """Compare the files that snapshots name with those that are there."""

    named: int = 0
    """Files that the snapshots of the table name, all together."""
    missing: tuple[LostFile, ...] = ()
    """Those of them that are not there, or of another size, or cannot be read."""
    orphans: tuple[StrayFile, ...] = ()
    """Files below the table's place that no snapshot names."""
    duplicates: tuple[LostFile, ...] = ()
    """Data files that one snapshot names twice, so that readers may see their rows twice."""


class LakeWriter(Protocol):
    """Write the rows of one bucket into files. Used by one thread, once."""

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Take rows of the table's schema, in the order of the log.

        For a table with a primary key: what comes later replaces what came before under the same
        key, also in files of earlier rounds; where `deleted` is true the key goes.
        """
        ...

    def finish(self) -> WriteResult:
        """Close the files and say what they are."""
        ...

    def abort(self) -> None:
        """Remove what was written; never raises."""
        ...


class LakeCommitter(Protocol):
    """Plan writing to one lake table, and make results visible in snapshots."""

    def head(self) -> LakeSnapshot | None:
        """Return the newest snapshot as the lake knows it now; None if there is none."""
        ...

    def find_round(self, round_id: str) -> LakeSnapshot | None:
        """Return the snapshot of a round, looking back from the newest; None if there is none."""
        ...

    def write_tasks(
        self, buckets: Sequence[tuple[PartitionValues, int]], *, on: LakeSnapshot | None
    ) -> list[WriteTask]:
        """Say what writers of these buckets need, given what the lake holds in a snapshot."""
        ...

    def commit(
        self,
        results: Sequence[WriteResult],
        *,
        boundary: Boundary,
        on: LakeSnapshot | None,
        properties: Mapping[str, str],
    ) -> LakeSnapshot:
        """Make results visible, with boundary and properties, in one snapshot directly after `on`.

        One attempt: raises `LakeMovedError` if `on` is not the newest any more and nothing was
        committed, `LakeRewrittenError` if files that the results refer to are gone from `on`,
        `LakeCommitUnknownError` if it cannot tell what happened, `LakeRowsDeletedError` if others
        took rows away. Results may be empty: then the
        snapshot only carries the boundary.
        """
        ...

    def abort(self, results: Sequence[WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        ...


class LakeCatalog(Protocol):
    """Look after the lake tables of one lake."""

    def exists(self, path: TablePath) -> bool:
        """Tell whether the lake has such a table."""
        ...

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Return the names of a lake table's columns; none if there is no such table."""
        ...

    def ensure(self, spec: LakeTableSpec) -> None:
        """Make the lake table, or bring its columns up to date: added, renamed, dropped.

        Raises `LakeTableDiffersError` for a table that is there and cannot become this one, and
        `UnsupportedError` for a type that the format cannot hold. Changes nothing if there is
        nothing to change. Leaves a table alone that has the columns of a later schema already.
        """
        ...

    def list_tables(self) -> list[TablePath]:
        """Return the tables of the lake."""
        ...

    def drop(self, path: TablePath) -> None:
        """Drop a lake table and its files; does nothing if there is none."""
        ...


class LakeSource(Protocol):
    """Read one lake table. A value: every `with_…` returns another source."""

    def with_projection(self, columns: Sequence[ColumnPath]) -> "LakeSource":
        """Read these columns only, in this order; a path of several names leads into rows."""
        ...

    def with_limit(self, rows: int) -> "LakeSource":
        """Plan no more splits than give so many rows; splits are not cut."""
        ...

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[LakeSource, FilterAnswer]":
        """Leave out what cannot pass all of the filters, which name columns by their ids."""
        ...

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """Return a snapshot, by default the newest; None if there is none (any more)."""
        ...

    def snapshots(self) -> list[LakeSnapshot]:
        """Return the snapshots that the lake still has, oldest first."""
        ...

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Return what to read; raises `LakeSnapshotMissingError` if the snapshot is gone.

        All files of a bucket are in one split where the table has a primary key.
        """
        ...

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split: current ones only, under the schema of the spec.

        Reads exactly the files of the split: some that stand alone may have been taken out. The
        schema may be older than the lake's newest one: columns have their names of then. Raises
        `PositionMissingError` for a column that was dropped since, if a file was written after
        that and lacks its values.

        With `in_key_order`, ascending by primary key (nulls cannot be); only where
        `is_key_ordered`.
        """
        ...

    @property
    def is_key_ordered(self) -> bool:
        """Tell whether splits can be read in the order of the primary key."""
        ...


class LakeKeeper(Protocol):
    """Keep one lake table small and quick to read; safe beside readers and tierers."""

    def plan_rewrites(self, *, on: LakeSnapshot) -> list[Rewrite]:
        """Return what is worth compacting: small files, and files with many rows replaced."""
        ...

    def rewrite(self, work: Rewrite) -> WriteResult:
        """Write the current rows of the files into fewer ones; runs in a worker."""
        ...

    def commit_rewrites(self, results: Sequence[WriteResult], *, on: LakeSnapshot) -> LakeSnapshot:
        """Put the new files in the place of the old ones, in one snapshot directly after `on`.

        The snapshot carries the boundary of `on`. Raises as `LakeCommitter.commit` does.
        """
        ...

    def merge_manifests(self, *, on: LakeSnapshot) -> LakeSnapshot | None:
        """Write the list of files anew if it lies in many pieces; None if it does not."""
        ...

    def retention(self) -> Retention:
        """Return which snapshots the options of the lake table keep, or the format's default."""
        ...

    def expire(self, retention: Retention, *, now_ms: int) -> Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        ...

    def remove_orphans(self, *, older_than_ms: int) -> Cleaned:
        """Delete files under the table's place that no snapshot holds, written before a moment."""
        ...

    def inventory(self, *, opens_files: bool = False) -> LakeInventory:
        """Compare what all kept snapshots name with what is there; changes nothing.

        What others expire or commit meanwhile is not taken for a fault. With `opens_files` every
        data file is opened, to see that it holds as many rows as the lists of files say.
        """
        ...


class LakeStorage(Protocol):
    """One lake: a catalog of one format, as its configuration describes it. Pickles."""

    @property
    def format(self) -> str:
        """Return the name of the format."""
        ...

    def catalog(self) -> LakeCatalog:
        """Return the catalog."""
        ...

    def committer(self, spec: LakeTableSpec) -> LakeCommitter:
        """Return what commits to a lake table that `LakeCatalog.ensure` has seen."""
        ...

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Return what writes one bucket."""
        ...

    def source(self, spec: LakeTableSpec) -> LakeSource:
        """Return what reads a lake table; raises `LakeSnapshotMissingError` if there is none."""
        ...

    def keeper(self, spec: LakeTableSpec) -> LakeKeeper:
        """Return what keeps a lake table in order."""
        ...
