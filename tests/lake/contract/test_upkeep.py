"""Upkeep keeps rows and boundary, and deletes only what nobody can need."""

import os
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError, LakeMovedError, LakeSnapshotMissingError
from headwater.lake.spi import Retention
from headwater.model.types import BigIntType, StringType
from tests.lake.contract.changes import added, dropped, renamed

ROUNDS = 6
NOTHING_OLD = Retention(snapshots_min=1, age_ms=10**12)
ALL_OLD = Retention(snapshots_min=1, age_ms=0)
DAY_MS = 86_400_000


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    """Give a table of many small files, with keys that later rounds replace."""
    table = tables.make({"id": BigIntType(nullable=False), "name": StringType()}, key=request.param)
    for turn in range(ROUNDS):
        rows = [{"id": turn * 2 + at, "name": f"{turn}"} for at in range(4)]
        gone = [False, False, False, turn == ROUNDS - 1] if request.param else None
        table.tier(rows, deleted=gone)
    return table


def later(table) -> int:
    """Return a moment after everything that was committed."""
    return table.head().committed_ms + DAY_MS


def data_files(table) -> set[Path]:
    splits = table.source.plan(table.head().snapshot_id)
    return {place_of(file.path) for split in splits for file in split.files}


def place_of(path: str) -> Path:
    return Path(path.removeprefix("file://").removeprefix("file:"))


def test_rewritten_files_hold_the_same_rows_in_fewer_files(table):
    rows, before = table.values(), table.head()

    after = table.compact()

    assert table.values() == rows
    assert len(data_files(table)) < before.file_count
    assert after.parent_id == before.snapshot_id
    assert table.head() == after


def test_rewriting_carries_the_boundary_on(table):
    before = table.head()

    after = table.compact()

    assert after.boundary == before.boundary
    assert table.committer.find_round(before.boundary.round_id) == before


def test_a_snapshot_from_before_the_rewrite_is_read_as_it_was(table):
    held = {each.snapshot_id: table.values(each.snapshot_id) for each in table.source.snapshots()}

    table.compact()

    assert {each: table.values(each) for each in held} == held


def test_rounds_go_on_after_a_rewrite(table):
    table.compact()
    expected = [row for row in table.values() if not (table.spec.is_keyed and row["id"] == 1)]

    table.tier([{"id": 1, "name": "new"}])

    assert [row for row in table.values() if row["name"] != "new"] == expected
    assert sum(row["name"] == "new" for row in table.values()) == 1


def test_a_rewrite_of_deleted_rows_leaves_none(tables):
    table = tables.keyed()
    for turn in range(6):
        table.tier([{"id": at, "name": f"{turn}"} for at in range(3)])
    table.tier([{"id": at, "name": "?"} for at in range(3)], deleted=[True] * 3)

    table.compact()

    assert table.values() == []
    assert table.source.plan(table.head().snapshot_id) == []


def test_a_rewrite_loses_against_a_commit_that_came_first(table):
    head, keeper = table.head(), table.keeper
    results = [keeper.rewrite(work) for work in keeper.plan_rewrites(on=head)]
    table.tier([{"id": 100, "name": "z"}])
    rows = table.values()

    with pytest.raises(LakeMovedError):
        keeper.commit_rewrites(results, on=head)

    assert table.values() == rows


def test_a_round_with_keys_written_before_a_rewrite_is_not_mixed_with_it(tables):
    table = tables.keyed()
    for turn in range(6):
        table.tier([{"id": at, "name": f"{turn}"} for at in range(3)])
    results = table.write([{"id": 1, "name": "late"}], on=table.head())
    table.compact()

    try:
        table.commit(results, on=table.head())
    except HeadwaterError:
        names = ["5", "5", "5"]
    else:
        names = ["5", "late", "5"]

    assert [row["name"] for row in table.values()] == names


def test_partitions_and_buckets_are_rewritten_each_for_itself(tables):
    columns = {"id": BigIntType(nullable=False), "p": StringType(nullable=False)}
    table = tables.make(
        columns, key=("id", "p"), partition_keys=("p",), bucket_keys=("id",), bucket_count=2
    )
    for turn in range(6):
        table.tier([{"id": turn + at, "p": "ab"[at % 2]} for at in range(8)])
    rows = table.values()

    table.compact()

    splits = table.source.plan(table.head().snapshot_id)
    assert table.values() == rows
    places = [(split.partition, split.bucket) for split in splits]
    assert sorted(places) == sorted(((("p", p),), bucket) for p in "ab" for bucket in (0, 1))


def test_rows_of_older_columns_are_rewritten_under_the_newest(tables):
    table = tables.make({"id": BigIntType(), "a": StringType(), "b": StringType()})
    for at in range(6):
        table.tier([{"id": at, "a": "a", "b": "b"}])
    table = table.evolved(added(dropped(renamed(table.spec, "a", "x"), "b"), "c"))
    table.tier([{"id": 6, "x": "a", "c": "c"}])
    rows = table.values()

    table.compact()

    assert table.values() == rows
    (split,) = table.source.plan(table.head().snapshot_id)
    assert all(file.is_plain for file in split.files)


def test_there_is_nothing_to_rewrite_after_a_rewrite(table):
    table.compact()

    assert table.keeper.plan_rewrites(on=table.head()) == []


def test_merging_the_list_of_files_changes_no_row(table):
    before, rows = table.head(), table.values()

    merged = table.keeper.merge_manifests(on=before)

    assert table.values() == rows
    if merged is not None:
        assert merged.boundary == before.boundary
        assert table.head() == merged
        assert merged.parent_id == before.snapshot_id
    table.tier([{"id": 50, "name": "z"}])
    assert len(table.values()) == len(rows) + 1


def test_merging_on_an_older_snapshot_is_refused(table):
    before = table.head()
    table.tier([{"id": 50, "name": "z"}])
    rows = table.values()

    try:
        merged = table.keeper.merge_manifests(on=before)
    except LakeMovedError:
        merged = None

    assert merged is None
    assert table.values() == rows


def test_old_snapshots_go_and_the_newest_stays(table):
    table.compact()
    rows, head = table.values(), table.head()
    old = table.source.snapshots()[0]

    cleaned = table.keeper.expire(ALL_OLD, now_ms=later(table))

    assert [each.snapshot_id for each in table.source.snapshots()] == [head.snapshot_id]
    assert cleaned.snapshots == ROUNDS
    assert table.values() == rows
    assert table.head().boundary == head.boundary
    assert table.source.snapshot(old.snapshot_id) is None
    with pytest.raises(LakeSnapshotMissingError):
        table.source.plan(old.snapshot_id)


@pytest.mark.usefixtures("lake_directory")
def test_expiry_deletes_the_files_that_only_old_snapshots_held(table):
    replaced = data_files(table)
    table.compact()
    kept = data_files(table)

    cleaned = table.keeper.expire(ALL_OLD, now_ms=later(table))

    assert not any(file.exists() for file in replaced - kept)
    assert all(file.exists() for file in kept)
    assert cleaned.data_files >= len(replaced - kept)
    assert cleaned.byte_count > 0


def test_young_snapshots_stay_and_can_be_read(table):
    first = table.source.snapshots()[0]
    rows = table.values(first.snapshot_id)
    table.compact()

    cleaned = table.keeper.expire(NOTHING_OLD, now_ms=later(table))

    assert (cleaned.snapshots, cleaned.data_files) == (0, 0)
    assert table.values(first.snapshot_id) == rows


def test_the_newest_few_stay_however_old_they_are(table):
    kept = [each.snapshot_id for each in table.source.snapshots()[-3:]]
    rows = [table.values(each) for each in kept]

    table.keeper.expire(Retention(snapshots_min=3, age_ms=0), now_ms=later(table))

    assert [each.snapshot_id for each in table.source.snapshots()] == kept
    assert [table.values(each) for each in kept] == rows


def test_a_reader_within_the_retention_still_reads_what_it_planned(table):
    head, source = table.head(), table.source
    splits = source.plan(head.snapshot_id)
    rows = table.values()
    table.compact()

    table.keeper.expire(Retention(snapshots_min=2, age_ms=0), now_ms=later(table))

    found = [row for split in splits for batch in source.read(split) for row in batch.to_pylist()]
    assert sorted(map(str, found)) == sorted(map(str, rows))


def test_rounds_go_on_after_expiry(table):
    table.compact()
    table.keeper.expire(ALL_OLD, now_ms=later(table))

    table.tier([{"id": 200, "name": "z"}])

    assert {"id": 200, "name": "z"} in table.values()
    assert table.head().boundary.end(next(iter(table.head().boundary.ranges))) > ROUNDS


def test_a_commit_on_a_snapshot_that_has_expired_is_refused(table):
    old = table.head()
    results = table.write([{"id": 400, "name": "late"}], on=old)
    table.tier([{"id": 401, "name": "z"}])
    table.tier([{"id": 402, "name": "z"}])
    table.keeper.expire(ALL_OLD, now_ms=later(table))
    rows = table.values()

    with pytest.raises(LakeMovedError):
        table.commit(results, on=old)

    assert table.values() == rows
    assert len(table.source.snapshots()) == 1


def test_expiring_a_table_without_snapshots_does_nothing(tables):
    table = tables.make()

    assert table.keeper.expire(ALL_OLD, now_ms=DAY_MS).snapshots == 0
    assert table.keeper.remove_orphans(older_than_ms=DAY_MS).data_files == 0


def test_the_retention_is_told(table):
    retention = table.keeper.retention()

    assert retention.snapshots_min >= 1
    assert retention.age_ms > 0


def test_old_files_that_no_snapshot_holds_are_removed(table, lake_directory):
    before = {each for each in lake_directory.rglob("*") if each.is_file()}
    lost = table.write([{"id": 300, "name": "lost"}], on=table.head())
    orphans = set(lake_directory.rglob("*.parquet")) - before
    for each in orphans:
        os.utime(each, (1_000_000, 1_000_000))
    rows = table.values()

    cleaned = table.keeper.remove_orphans(older_than_ms=2_000_000_000)

    assert lost[0].file_count > 0
    assert orphans
    assert not any(each.exists() for each in orphans)
    assert cleaned.data_files == len(orphans)
    assert table.values() == rows


def test_young_files_and_live_ones_stay(table, lake_directory):
    results = table.write([{"id": 300, "name": "under way"}], on=table.head())
    for each in data_files(table):
        os.utime(each, (1_000_000, 1_000_000))
    held = {each for each in lake_directory.rglob("*") if each.is_file()}

    cleaned = table.keeper.remove_orphans(older_than_ms=2_000_000_000)

    assert cleaned.data_files == 0
    assert {each for each in lake_directory.rglob("*") if each.is_file()} == held
    table.commit(results, on=table.head())
    assert {"id": 300, "name": "under way"} in table.values()


def test_files_of_every_snapshot_that_is_left_are_no_orphans(table):
    old = {each.snapshot_id: table.values(each.snapshot_id) for each in table.source.snapshots()}
    table.compact()

    table.keeper.remove_orphans(older_than_ms=later(table))

    assert {each: table.values(each) for each in old} == old


def test_orphans_of_other_tables_are_theirs(table, tables):
    other = tables.make({"id": BigIntType(), "name": StringType()})
    other.tier([{"id": 1, "name": "a"}])
    waiting = other.write([{"id": 2, "name": "b"}], on=other.head())

    table.keeper.remove_orphans(older_than_ms=later(table))

    other.commit(waiting, on=other.head())
    assert [row["id"] for row in other.values()] == [1, 2]
