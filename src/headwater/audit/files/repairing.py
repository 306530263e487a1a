"""The repair of one bucket of a data directory that nobody has open."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from headwater.audit.files.begin_plan import check_begin, plan_begin
from headwater.audit.files.catalog import read_catalog
from headwater.audit.files.catalog_seen import CatalogSeen
from headwater.audit.files.cut_place import find_place
from headwater.audit.files.cut_plan import check_cut, plan_cut
from headwater.audit.files.rebuild_plan import plan_index_rebuild, plan_state_rebuild
from headwater.audit.files.repair_steps import RepairPlan, carry_out
from headwater.audit.files.repairable import examine, find_bucket
from headwater.audit.files.walking import LOGS
from headwater.audit.report import Notes
from headwater.errors import CorruptFileError, MissingError, TableMissingError
from headwater.model.bucket import TableBucket
from headwater.server.catalog.catalog import CATALOG_NAME
from headwater.server.catalog.lock import DirectoryLock
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk


class Rebuild(Enum):
    """Say what is to be built anew from the log."""

    STATE = auto()
    INDEX = auto()


@dataclass(frozen=True, slots=True)
class Cut:
    """Say at which offset a log is to end."""

    offset: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Say at which offset a log is to begin, as the lake holds what comes before."""

    offset: int


Cure = Begin | Cut | Rebuild


@dataclass(frozen=True, slots=True)
class Repair:
    """Hold what is going to be done to a bucket, until somebody says so."""

    disk: Disk
    plan: RepairPlan

    def carry_out(self) -> None:
        """Do it."""
        carry_out(self.disk, self.plan.steps)


@contextmanager
def prepared(
    directory: Path, table: str, *, bucket: int, partition: str | None, cure: Cure
) -> Iterator[Repair]:
    """Take a directory, and decide how to mend one of its buckets.

    1. lock the directory  2. find the bucket in the catalog  3. look at its files  4. decide
    """
    lock = DirectoryLock.take(directory)
    try:
        catalog = _catalog(directory)
        seen = catalog.find(table)
        if seen is None:
            raise TableMissingError(f"There is no table '{table}'.")
        found = find_bucket(catalog, seen, bucket=bucket, partition=partition)
        disk = LocalDisk(directory / LOGS)
        yield Repair(disk, decide(disk, catalog, found, cure))
    finally:
        lock.release()


def decide(disk: Disk, catalog: CatalogSeen, bucket: TableBucket, cure: Cure) -> RepairPlan:
    """Return the steps that mend a bucket, or refuse what would make it worse."""
    found = examine(disk, catalog, bucket)
    if cure is Rebuild.STATE:
        return plan_state_rebuild(found)
    if cure is Rebuild.INDEX:
        return plan_index_rebuild(found)
    if isinstance(cure, Begin):
        check_begin(found, cure.offset)
        return plan_begin(found, cure.offset)
    check_cut(found, cure.offset)
    return plan_cut(found, find_place(disk, found, cure.offset))


def _catalog(directory: Path) -> CatalogSeen:
    path, notes = directory / CATALOG_NAME, Notes()
    if not path.exists():
        raise MissingError(f"{directory} is no data directory: it has no {CATALOG_NAME}.")
    catalog = read_catalog(path, notes)
    if catalog is None:
        raise CorruptFileError(notes.findings[0].message, hint=notes.findings[0].remedy)
    return catalog
