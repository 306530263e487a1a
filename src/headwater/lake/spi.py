"""The lake interface: what a format implements, the tables it sees, and what it reports.

Formats register under the entry point `headwater.lake`. A plugin is a function that opens a lake:

    def open_lake(config: Mapping[str, str]) -> LakeStorage

The roles, and where they run:

    LakeStorage    anywhere   one catalog of one format; pickles, so that it reaches workers
    LakeCatalog    driver     creates lake tables and updates their columns
    LakeCommitter  driver     plans what writers need, and makes their results visible
    LakeWriter     worker     writes rows of one bucket into files that nobody sees yet
    LakeSource     anywhere   plans splits of a snapshot, and reads them
    LakeKeeper     both       compacts, expires and cleans

Every method may block. Every one may raise `LakeUnreachableError` if the lake cannot be reached or
written; other errors are documented at the method.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from headwater.errors import LakeRowsDeletedError
from headwater.lake.split import LakeSplit
from headwater.model import Boundary, Schema, TablePath
from headwater.model.boundary import BOUNDARY_PROPERTY
from headwater.model.predicate import Predicate

# A table as a lake format sees it.

BUCKET_COLUMN = "__bucket"
SYSTEM_COLUMNS = (BUCKET_COLUMN, "__offset", "__timestamp")
"""The columns that Apache Fluss before 1.0 adds to its lake tables, and expects to be last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableSpec:
    """The lake table that belongs to a table; plain values that can be sent to workers."""

    path: TablePath
    schema: Schema
    """Columns by id: the same id means the same column, whatever its name."""
    partition_keys: tuple[str, ...] = ()
    bucket_keys: tuple[str, ...] = ()
    """Empty for a log table whose rows go to any bucket."""
    bucket_count: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)
    """Options for the lake table under the names of its format, e.g. `write.format.default`."""
    comment: str | None = None

    @property
    def is_keyed(self) -> bool:
        """Tell whether the table has a primary key."""
        return bool(self.schema.primary_key)

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The primary key without partition columns: it identifies rows within a partition."""
        return tuple(name for name in self.schema.primary_key if name not in self.partition_keys)


# The roles and the values that they exchange.

ColumnPath = tuple[str, ...]
PartitionValues = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSnapshot:
    """What a reader or committer may want to know about a snapshot."""

    snapshot_id: int
    parent_id: int | None
    committed_ms: int
    boundary: Boundary | None
    """Boundary of this snapshot, or of the nearest one before it; None if nothing was ever
    tiered."""
    row_count: int
    """Rows in its files; for keyed tables, deleted and replaced ones may be included."""
    file_count: int
    byte_count: int
    properties: Mapping[str, str] = field(default_factory=dict)
    taken: str = ""
    """What others removed of the tiered rows up to here; empty if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Where a writer writes; made by a committer, small, pickles."""

    partition: PartitionValues
    bucket: int
    payload: bytes = field(repr=False)
    """What the format's own writer also needs: metadata, files with older rows, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The files that a writer wrote, not visible yet; small, pickles."""

    partition: PartitionValues
    bucket: int
    row_count: int
    file_count: int
    byte_count: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """What a source does with filters."""

    accepted: tuple[Predicate, ...]
    """Filters used to skip files or rows. Rows that do not pass may still be returned."""
    remaining: tuple[Predicate, ...]
    """Filters that the reader must still apply to every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Files that one task turns into fewer ones; made by a keeper, pickles."""

    partition: PartitionValues
    bucket: int
    file_count: int
    byte_count: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which snapshots stay, in addition to those that tags and branches name."""

    snapshots_min: int
    """This many of the newest stay however old they are."""
    age_ms: int
    """Younger ones stay however many they are: readers may use them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a clean-up removed."""

    snapshots: int = 0
    data_files: int = 0
    metadata_files: int = 0
    byte_count: int = 0


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that a snapshot needs and that is missing or wrong."""

    path: str
    snapshot_id: int
    """The first snapshot that needs it."""
    fault: str
    """What is wrong, as it follows the file's name in a sentence: "is missing"."""


@dataclass(frozen=True, slots=True)
class StrayFile:
    """A file that no snapshot needs."""

    path: str
    age_ms: int
    byte_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeInventory:
    """The files that snapshots name, compared with those that exist."""

    named: int = 0
    """Number of files that all snapshots of the table name together."""
    missing: tuple[LostFile, ...] = ()
    """Those that are missing, have another size, or cannot be read."""
    orphans: tuple[StrayFile, ...] = ()
    """Files below the table's location that no snapshot names."""
    duplicates: tuple[LostFile, ...] = ()
    """Data files that a snapshot names twice, so that readers may see their rows twice."""


class LakeWriter(Protocol):
    """Writes the rows of one bucket into files. Used by one thread, once."""

    def write(self, rows: pa.RecordBatch, *, deleted: pa.BooleanArray | None = None) -> None:
        """Write rows of the table's schema, in log order.

        For a table with a primary key: a later row replaces an earlier one with the same key, also
        in files of earlier rounds; where `deleted` is true the key is removed.
        """
        ...

    def finish(self) -> WriteResult:
        """Close the files and describe them."""
        ...

    def abort(self) -> None:
        """Remove what was written; never raises."""
        ...


class LakeCommitter(Protocol):
    """Plans writes to one lake table, and makes results visible in snapshots."""

    def head(self) -> LakeSnapshot | None:
        """The newest snapshot as the lake knows it now; None if there is none."""
        ...

    def find_round(self, round_id: str) -> LakeSnapshot | None:
        """Find the snapshot of a round, looking back from the newest; None if there is none."""
        ...

    def write_tasks(
        self, buckets: Sequence[tuple[PartitionValues, int]], *, on: LakeSnapshot | None
    ) -> list[WriteTask]:
        """Plan what writers of these buckets need, given what the lake holds in a snapshot."""
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

        Tries once. Raises `LakeMovedError` if `on` is no longer the newest and nothing was
        committed, `LakeRewrittenError` if files that the results refer to are gone from `on`,
        `LakeCommitUnknownError` if the outcome is unknown, `LakeRowsDeletedError` if others removed
        rows. Results may be empty: then the snapshot only carries the boundary.
        """
        ...

    def abort(self, results: Sequence[WriteResult]) -> None:
        """Remove the files of results that no snapshot holds; never raises."""
        ...


class LakeCatalog(Protocol):
    """Manages the lake tables of one lake."""

    def exists(self, path: TablePath) -> bool:
        """Tell whether the lake has such a table."""
        ...

    def column_names(self, path: TablePath) -> tuple[str, ...]:
        """Column names of a lake table; empty if there is no such table."""
        ...

    def ensure(self, spec: LakeTableSpec) -> None:
        """Create the lake table, or update its columns: added, renamed, dropped.

        Raises `LakeTableDiffersError` for an existing table that cannot become this one, and
        `UnsupportedError` for a type that the format cannot hold. Does nothing if nothing changed,
        or if the lake table already has the columns of a later schema.
        """
        ...

    def list_tables(self) -> list[TablePath]:
        """List the tables of the lake."""
        ...

    def drop(self, path: TablePath) -> None:
        """Drop a lake table and its files; does nothing if there is none."""
        ...


class LakeSource(Protocol):
    """Reads one lake table. A value: every `with_…` returns another source."""

    def with_projection(self, columns: Sequence[ColumnPath]) -> "LakeSource":
        """Read only these columns, in this order; a path of several names leads into rows."""
        ...

    def with_limit(self, rows: int) -> "LakeSource":
        """Plan no more splits than needed for this many rows; splits are not cut."""
        ...

    def with_filters(self, filters: Sequence[Predicate]) -> "tuple[LakeSource, FilterAnswer]":
        """Skip what cannot pass all of the filters, which name columns by their ids."""
        ...

    def snapshot(self, snapshot_id: int | None = None) -> LakeSnapshot | None:
        """A snapshot, by default the newest; None if it does not exist (any more)."""
        ...

    def snapshots(self) -> list[LakeSnapshot]:
        """The snapshots that the lake still has, oldest first."""
        ...

    def plan(self, snapshot_id: int) -> list[LakeSplit]:
        """Plan what to read; raises `LakeSnapshotMissingError` if the snapshot is gone.

        If the table has a primary key, all files of a bucket are in one split.
        """
        ...

    def read(self, split: LakeSplit, *, in_key_order: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the current rows of a split, under the schema of the spec.

        Reads exactly the files of the split: some that stand alone may have been left out. The
        schema may be older than the lake's newest: columns have their names of that time. Raises
        `PositionMissingError` for a column that was dropped since, if a file was written after that
        and lacks its values.

        With `in_key_order`, ascending by primary key (which has no nulls); only if
        `is_key_ordered`.
        """
        ...

    @property
    def is_key_ordered(self) -> bool:
        """Tell whether splits can be read in primary-key order."""
        ...


class LakeKeeper(Protocol):
    """Keeps one lake table small and fast to read; safe next to readers and tierers."""

    def plan_rewrites(self, *, on: LakeSnapshot) -> list[Rewrite]:
        """Plan what is worth compacting: small files, and files with many replaced rows."""
        ...

    def rewrite(self, work: Rewrite) -> WriteResult:
        """Write the current rows of the files into fewer ones; runs in a worker."""
        ...

    def commit_rewrites(self, results: Sequence[WriteResult], *, on: LakeSnapshot) -> LakeSnapshot:
        """Replace the old files with the new ones, in one snapshot directly after `on`.

        The snapshot carries the boundary of `on`. Raises like `LakeCommitter.commit`.
        """
        ...

    def merge_manifests(self, *, on: LakeSnapshot) -> LakeSnapshot | None:
        """Merge the file lists if there are many; None if there are few."""
        ...

    def retention(self) -> Retention:
        """Which snapshots the lake table's options keep, or the format's default."""
        ...

    def expire(self, retention: Retention, *, now_ms: int) -> Cleaned:
        """Drop old snapshots, and delete the files that only they held."""
        ...

    def remove_orphans(self, *, older_than_ms: int) -> Cleaned:
        """Delete files below the table's location that are older and in no snapshot."""
        ...

    def inventory(self, *, opens_files: bool = False) -> LakeInventory:
        """Compare what all kept snapshots name with the files that exist; changes nothing.

        Concurrent commits and expirations are not reported as faults. With `opens_files` every data
        file is opened to compare its row count with the file lists.
        """
        ...


class LakeStorage(Protocol):
    """One lake: a catalog of one format, as its configuration describes it. Pickles."""

    @property
    def format(self) -> str:
        """Name of the format."""
        ...

    def catalog(self) -> LakeCatalog:
        """Catalog of the lake."""
        ...

    def committer(self, spec: LakeTableSpec) -> LakeCommitter:
        """Committer for a lake table that `LakeCatalog.ensure` has seen."""
        ...

    def writer(self, spec: LakeTableSpec, task: WriteTask) -> LakeWriter:
        """Writer of one bucket."""
        ...

    def source(self, spec: LakeTableSpec) -> LakeSource:
        """Reader of a lake table; raises `LakeSnapshotMissingError` if there is none."""
        ...

    def keeper(self, spec: LakeTableSpec) -> LakeKeeper:
        """Maintenance of a lake table."""
        ...


# Tiered rows that others removed from a lake table: how snapshots record it, and the error.

CHECKED_PROPERTY = "headwater.rows-kept"
"""On our snapshots: nobody removed tiered rows up to here."""
CHECKED = {CHECKED_PROPERTY: "1"}
_FLUSS_PROPERTY = "fluss-offsets"


def is_tierers(properties: Mapping[str, str]) -> bool:
    """Tell whether a tierer, or its upkeep, committed a snapshot."""
    return BOUNDARY_PROPERTY in properties or _FLUSS_PROPERTY in properties


def is_checked(properties: Mapping[str, str]) -> bool:
    """Tell whether a snapshot says that no tiered rows were removed up to it."""
    return CHECKED_PROPERTY in properties and BOUNDARY_PROPERTY in properties


def check_kept(on: LakeSnapshot | None, path: TablePath) -> None:
    """Raise if tiered rows are missing from a snapshot."""
    if on is not None and on.taken:
        raise rows_deleted(path, on.taken)


def rows_deleted(path: TablePath, taken: str) -> LakeRowsDeletedError:
    """The error that says what to do."""
    return LakeRowsDeletedError(
        f"Others removed tiered rows from the lake table {path}: {taken}.",
        hint=(
            "Undo that with a rollback of the lake table, in the engine that did it. "
            "Or, while the log still holds the rows, rebuild the lake table: "
            f"headwater lake drop {path}, then headwater tier {path}. To delete rows, "
            "delete them in the table, not in the lake."
        ),
    )
