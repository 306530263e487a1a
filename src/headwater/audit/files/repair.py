"""Repair one bucket of a data directory that nobody has open."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from headwater.audit.files.bucket import examine, find_bucket, find_place
from headwater.audit.files.catalog import CatalogSeen, read_catalog
from headwater.audit.files.repair_plan import (
    RepairPlan,
    carry_out,
    check_begin,
    check_cut,
    plan_begin,
    plan_cut,
    plan_index_rebuild,
    plan_state_rebuild,
)
from headwater.audit.files.walk import LOGS
from headwater.audit.report import Notes
from headwater.errors import CorruptFileError, MissingError, TableMissingError
from headwater.model import TableBucket
from headwater.server.catalog.catalog import CATALOG_NAME
from headwater.server.catalog.lock import DirectoryLock
from headwater.store.disk import Disk
from headwater.store.local import LocalDisk


class Rebuild(Enum):
    """What to rebuild from the log."""

    STATE = auto()
    INDEX = auto()


@dataclass(frozen=True, slots=True)
class Cut:
    """The offset at which a log should end."""

    offset: int


@dataclass(frozen=True, slots=True)
class Begin:
    """The offset at which a log should begin, because the lake holds everything before it."""

    offset: int


Cure = Begin | Cut | Rebuild


@dataclass(frozen=True, slots=True)
class Repair:
    """A planned repair of a bucket, carried out only on request."""

    disk: Disk
    plan: RepairPlan

    def carry_out(self) -> None:
        """Do it."""
        carry_out(self.disk, self.plan.steps)


@contextmanager
def prepared(
    directory: Path, table: str, *, bucket: int, partition: str | None, cure: Cure
) -> Iterator[Repair]:
    """Lock a directory, and decide how to repair one of its buckets.

    1. lock the directory  2. find the bucket in the catalog  3. examine its files  4. decide
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
    """Decide the steps of a repair; raises for one that would make things worse."""
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
        raise MissingError(f"{directory} is not a data directory: it has no {CATALOG_NAME}.")
    catalog = read_catalog(path, notes)
    if catalog is None:
        raise CorruptFileError(notes.findings[0].message, hint=notes.findings[0].remedy)
    return catalog
