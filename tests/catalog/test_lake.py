"""What the catalog knows of the lake, and keeps over reopens."""

import pytest

from headwater.errors import BucketMissingError, LakeSnapshotMissingError, TieringFencedError
from headwater.model.boundary import LakeBucket
from headwater.server.catalog.lake import KEEP_ALL
from headwater.server.catalog.lake_entries import ReportedLakeSnapshot, TieredOffsets, TieringRecord
from tests.catalog.samples import ORDERS, log_table, open_catalog

BUCKET = LakeBucket(None, 0)


@pytest.fixture
def catalog(tmp_path):
    opened = open_catalog(tmp_path)
    opened.tables.create(ORDERS, log_table())
    yield opened
    opened.close()


def told(snapshot_id: int, end: int, *, replaces: bool = False, **rest) -> ReportedLakeSnapshot:
    return ReportedLakeSnapshot(
        table_id=1,
        snapshot_id=snapshot_id,
        committed_ms=1000 + snapshot_id,
        tiered=TieredOffsets(table_id=1, ends={BUCKET: end}, replaces=replaces),
        tiered_path=f"file:///{snapshot_id}.offsets",
        **rest,
    )


def ids(catalog) -> list[int]:
    return [each.snapshot_id for each in catalog.lake.snapshots(1)]


def test_the_snapshot_that_was_told_last_is_the_newest_whatever_its_id(catalog):
    catalog.lake.commit(told(90, 5), earliest_kept=KEEP_ALL)
    catalog.lake.commit(told(10, 8), earliest_kept=KEEP_ALL)

    assert catalog.lake.latest(1) == told(10, 8)
    assert catalog.lake.ends(1) == {BUCKET: 8}
    assert catalog.lake.find(1, 90) == told(90, 5)


def test_only_the_newest_snapshot_stays_known_unless_more_are_asked_for(catalog):
    catalog.lake.commit(told(1, 5), earliest_kept=None)
    catalog.lake.commit(told(2, 6), earliest_kept=None)

    assert ids(catalog) == [2]
    with pytest.raises(LakeSnapshotMissingError):
        catalog.lake.find(1, 1)


@pytest.mark.parametrize(
    ("earliest_kept", "kept"),
    [(KEEP_ALL, [3, 1, 2, 4]), (1, [1, 2, 4]), (2, [2, 4]), (4, [4]), (77, [3, 1, 2, 4])],
)
def test_snapshots_are_kept_from_one_on_by_the_order_they_came_in(catalog, earliest_kept, kept):
    for end, snapshot_id in enumerate((3, 1, 2)):
        catalog.lake.commit(told(snapshot_id, end), earliest_kept=KEEP_ALL)

    catalog.lake.commit(told(4, 9), earliest_kept=earliest_kept)

    assert ids(catalog) == kept


def test_a_late_report_does_not_undo_a_newer_one(catalog):
    catalog.lake.commit(told(2, 9), earliest_kept=None)

    with pytest.raises(TieringFencedError, match="already ends at 9"):
        catalog.lake.commit(told(1, 5), earliest_kept=None)

    assert catalog.lake.latest(1) == told(2, 9)


def test_offsets_go_back_where_that_is_meant(catalog):
    catalog.lake.commit(told(2, 9), earliest_kept=None)

    catalog.lake.commit(told(3, 5, replaces=True), earliest_kept=None)

    assert catalog.lake.ends(1) == {BUCKET: 5}


def test_a_snapshot_that_is_told_twice_is_known_once(catalog):
    catalog.lake.commit(told(1, 5), earliest_kept=KEEP_ALL)
    catalog.lake.commit(told(2, 6), earliest_kept=KEEP_ALL)

    catalog.lake.commit(told(1, 5), earliest_kept=KEEP_ALL)

    assert ids(catalog) == [1, 2]


def test_everything_is_there_after_a_restart(catalog, tmp_path):
    record = TieringRecord(turn=4, last_tiered_ms=8, failures=2, last_failure="é", file_size=9)
    readable = TieredOffsets(table_id=1, ends={BUCKET: 3})
    snapshot = told(1, 5, readable=readable, readable_path="file:///readable.offsets")
    catalog.lake.put_record(1, record)
    catalog.lake.commit(snapshot, earliest_kept=None)
    catalog.close()

    reopened = open_catalog(tmp_path)

    assert reopened.lake.record(1) == record
    assert reopened.lake.snapshots(1) == (snapshot,)
    assert reopened.start_count > catalog.start_count
    reopened.close()


def test_what_was_known_of_a_table_goes_with_it(catalog, tmp_path):
    catalog.lake.put_record(1, TieringRecord(turn=4))
    catalog.lake.commit(told(1, 5), earliest_kept=None)

    catalog.tables.drop(ORDERS)

    assert catalog.lake.paths_in_use() == frozenset()
    with pytest.raises(BucketMissingError):
        catalog.lake.commit(told(2, 6), earliest_kept=None)
    catalog.close()
    reopened = open_catalog(tmp_path)
    assert reopened.lake.snapshots(1) == ()
    assert reopened.lake.record(1) == TieringRecord()
    reopened.close()
