"""A repair that is interrupted anywhere loses nothing before the cut, and can be done again."""

from dataclasses import replace

from headwater.audit.files.catalog import CatalogSeen, TableSeen
from headwater.audit.files.repair import Begin, Cure, Cut, Rebuild, decide
from headwater.audit.files.repair_plan import carry_out
from headwater.errors import RequestError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import TableBucket
from headwater.model.schema import Column, Schema
from headwater.model.table import TableDescriptor
from headwater.model.types import IntType
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot, TieredOffsets
from headwater.store.memory import DiskChange, MemoryDisk
from tests.audit.files.support import errors
from tests.cases import cases
from tests.log.support import Fault, InterposedDisk, append, filled, messages, open_log

COUNT = 20


def reported(end: int) -> ReportedLakeSnapshot:
    """Return a lake snapshot that holds the bucket up to an offset."""
    tiered = TieredOffsets(table_id=1, ends={LakeBucket(None, 0): end})
    return ReportedLakeSnapshot(
        table_id=1, snapshot_id=5, committed_ms=1, tiered=tiered, tiered_path=""
    )


SCHEMA = Schema(columns=(Column(name="id", type=IntType()),))
TABLE = TableSeen(
    table_id=1,
    name="fluss.t",
    schema_id=1,
    descriptor=TableDescriptor(schema=SCHEMA, bucket_count=1),
    schemas={1: SCHEMA},
)
CATALOG = CatalogSeen(tables={1: TABLE}, table_ids={1})
TIERED = replace(CATALOG, lake_snapshots={1: [reported(COUNT)]})


def made() -> MemoryDisk:
    disk = MemoryDisk()
    log = filled(disk, COUNT)
    log.close()
    return disk


def mend(disk: MemoryDisk, cure: Cure, *, before: Fault | None = None) -> None:
    catalog = TIERED if isinstance(cure, Begin) else CATALOG
    steps = decide(disk, catalog, TableBucket(1, 0), cure).steps
    carry_out(disk if before is None else InterposedDisk(disk, before=before), steps)


def keep(change: DiskChange) -> bytes:
    return change.data


def lose(change: DiskChange) -> None:
    return None


def interrupted(cure: Cure, fate) -> list[MemoryDisk]:
    """Return the disk as it is after a crash before each operation of a repair."""
    images = []
    for number in range(1, 1_000):
        disk, fault = made(), Fault(number, for_good=True)
        try:
            mend(disk, cure, before=fault)
        except OSError:
            images.append(disk.crashed(fate))
        else:
            return [*images, disk.crashed(fate)]
    raise AssertionError("a repair has no end")


@cases("fate", [keep, lose])
@cases("offset", [0, 3, 7, 10, 19])
def test_a_cut_that_is_interrupted_keeps_everything_before_it(offset, fate):
    images = interrupted(Cut(offset), fate)

    for image in images:
        assert errors(image) == []
        log = open_log(image)
        assert log.start_offset == 0
        assert log.end_offset >= offset
        assert {at: text for at, text in messages(log).items() if at < offset} == {
            number: f"{number:032}" for number in range(offset)
        }
        assert append(log, "next").base_offset == log.end_offset - 1
    assert len(images) > 10


@cases("fate", [keep, lose])
@cases("offset", [0, 3, 7, 10, 19])
def test_a_cut_that_was_interrupted_can_be_done_again(offset, fate):
    for image in interrupted(Cut(offset), fate):
        try:
            mend(image, Cut(offset))
        except RequestError as refused:
            assert "nothing to cut" in str(refused)

        assert errors(image) == []
        log = open_log(image)
        assert (log.end_offset, append(log, "next").base_offset) == (offset, offset)


@cases("fate", [keep, lose])
@cases("offset", [3, 7, 19, 20])
def test_a_log_that_is_to_begin_later_keeps_everything_behind_if_that_is_interrupted(offset, fate):
    for image in interrupted(Begin(offset), fate):
        log = open_log(image)
        assert log.end_offset == COUNT
        assert [*messages(log, offset=offset)] == [*range(offset, COUNT)]
        log.close()

        if log.start_offset < offset:
            mend(image, Begin(offset))

        assert errors(image) == []
        log = open_log(image)
        assert (log.start_offset, append(log, "next").base_offset) == (offset, COUNT)


@cases("fate", [keep, lose])
def test_an_index_whose_rebuild_is_interrupted_costs_nothing(fate):
    for image in interrupted(Rebuild.INDEX, fate):
        assert errors(image) == []
        assert len(messages(open_log(image))) == COUNT
