"""What is special to the upkeep of Iceberg tables."""

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import LakeRewrittenError, LakeTableDiffersError
from headwater.lake.iceberg.files import local_path
from headwater.lake.spi import Retention

ALL = Retention(snapshots_min=1, age_ms=0)
FAR = 2**60


def files_below(table) -> set[Path]:
    return {path for path in Path(local_path(table.location())).rglob("*") if path.is_file()}


def test_a_tagged_snapshot_stays_with_its_files(tables, foreign):
    table = tables.keyed()
    first = table.tier([{"id": 1, "name": "a"}])
    foreign(table.spec).manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    for name in "bcd":
        table.tier([{"id": 1, "name": name}])

    table.compact()
    table.keeper.expire(ALL, now_ms=FAR)

    assert [each.snapshot_id for each in table.source.snapshots()] == [
        first.snapshot_id,
        table.head().snapshot_id,
    ]
    assert table.values(first.snapshot_id) == [{"id": 1, "name": "a"}]


def test_the_snapshot_that_knows_the_boundary_outlives_foreign_ones(tables, foreign):
    table = tables.make()
    tiered = table.tier([{"id": 1, "name": "a"}])
    for at in (2, 3):
        foreign(table.spec).append(pa.table(table.batch([{"id": at, "name": "f"}])))

    table.keeper.expire(ALL, now_ms=FAR)

    assert table.head().boundary == tiered.boundary
    assert len(table.values()) == 3


def test_the_boundary_is_found_where_others_cut_the_line_of_snapshots(tables, foreign):
    table = tables.make()
    tiered = table.tier([{"id": 1, "name": "a"}])
    for at in (2, 3):
        foreign(table.spec).append(pa.table(table.batch([{"id": at, "name": "f"}])))
    seen = foreign(table.spec)
    between = seen.current_snapshot().parent_snapshot_id

    seen.maintenance.expire_snapshots().by_id(between).commit()

    assert table.head().parent_id is None
    assert table.head().boundary == tiered.boundary


def test_a_table_is_refused_whose_boundary_others_have_expired(tables, foreign):
    table = tables.make()
    table.tier([{"id": 1, "name": "a"}])
    seen = foreign(table.spec)
    seen.overwrite(seen.scan().to_arrow())
    old = [each.snapshot_id for each in seen.snapshots()][:-1]

    seen.maintenance.expire_snapshots().by_ids(old).commit()

    with pytest.raises(LakeTableDiffersError, match="how far"):
        table.head()


def test_compaction_keeps_the_columns_that_others_added(tables, foreign):
    table = tables.make()
    with foreign(table.spec).update_schema() as change:
        change.add_column("extra", foreign(table.spec).schema().find_type("name"))
    rows = pa.table({"id": [9], "name": ["f"], "extra": ["x"]})
    foreign(table.spec).append(rows.cast(foreign(table.spec).schema().as_arrow()))
    for at in range(5):
        table.tier([{"id": at, "name": "a"}])

    table.compact()

    (extra,) = foreign(table.spec).scan(row_filter="id = 9").to_arrow().column("extra").to_pylist()
    assert extra == "x"
    assert len(table.values()) == 6


def test_rows_deleted_while_others_compact_are_not_brought_back(tables):
    table = tables.keyed()
    for at in range(5):
        table.tier([{"id": at, "name": "a"}])
    keeper = table.keeper
    results = [keeper.rewrite(work) for work in keeper.plan_rewrites(on=table.head())]
    table.tier([{"id": 2, "name": "a"}], deleted=[True])

    with pytest.raises(LakeRewrittenError):
        keeper.commit_rewrites(results, on=table.head())
    assert [row["id"] for row in table.values()] == [0, 1, 3, 4]


def test_expiry_leaves_no_file_behind_that_nobody_needs(tables, foreign):
    table = tables.keyed()
    for turn in range(6):
        table.tier([{"id": at, "name": str(turn)} for at in range(3)])
    table.compact()

    table.keeper.expire(ALL, now_ms=FAR)
    table.keeper.remove_orphans(older_than_ms=FAR)

    seen = foreign(table.spec)
    names = [path.name for path in files_below(seen)]
    assert len([name for name in names if name.endswith(".parquet")]) == 1
    logged = len(seen.metadata.metadata_log) + 1
    assert len([name for name in names if name.endswith(".metadata.json")]) == logged
    assert len([name for name in names if name.startswith("snap-")]) == 1
    assert len(table.values()) == 3


def test_old_metadata_goes_with_every_commit(tables, foreign):
    table = tables.make()
    for at in range(25):
        table.tier([{"id": at, "name": "a"}])

    names = [path.name for path in files_below(foreign(table.spec))]

    assert len([name for name in names if name.endswith(".metadata.json")]) == 21


def test_many_rounds_do_not_make_many_manifests(tables, foreign):
    table = tables.make()
    for at in range(35):
        table.tier([{"id": at, "name": "a"}])

    seen = foreign(table.spec)

    assert len(seen.current_snapshot().manifests(seen.io)) < 31
    assert len(table.values()) == 35


def test_files_that_moved_to_another_manifest_outlive_the_one_they_were_in(tables):
    table = tables.make()
    for number in range(6):
        table.tier([{"id": number, "name": "a"}])
    before = len(table.values())

    assert table.keeper.merge_manifests(on=table.head()) is not None
    cleaned = table.keeper.expire(ALL, now_ms=FAR)

    assert cleaned.snapshots == 6
    assert cleaned.data_files == 0
    assert len(table.values()) == before == 6
