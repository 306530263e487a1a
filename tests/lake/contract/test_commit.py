"""A commit is one attempt after one snapshot: whole with its boundary, or not at all."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.errors import HeadwaterError, LakeMovedError
from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.types import BigIntType, DateType, StringType
from tests.lake.lake_table import EPOCH, IDENTITY, boundary_after

ONE = [{"id": 1, "name": "a"}]
TWO = [{"id": 2, "name": "b"}]


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    return tables.make({"id": BigIntType(nullable=False), "name": StringType()}, key=request.param)


def ids(table) -> list[object]:
    return [row["id"] for row in table.values()]


def test_rows_are_not_seen_before_they_are_committed(table):
    table.tier(ONE)
    results = table.write(TWO, on=table.head())
    before = ids(table)

    table.commit(results, on=table.head())

    assert (before, ids(table)) == ([1], [1, 2])


def test_a_commit_returns_the_snapshot_that_is_then_the_newest(table):
    first = table.tier(ONE)
    second = table.tier(TWO)

    assert table.head() == second
    assert second.parent_id == first.snapshot_id
    assert second.committed_ms >= first.committed_ms > 0
    assert table.source.snapshots() == [first, second]
    assert table.source.snapshot(first.snapshot_id) == first
    assert table.source.snapshot() == second


def test_an_unknown_snapshot_is_none(table):
    table.tier(ONE)

    assert table.source.snapshot(123456789) is None


def test_boundary_and_properties_come_back_from_the_snapshot(table):
    properties = {"commit-user": "__fluss_lake_tiering", "fluss-offsets": "file:/a b/ü.offsets"}
    results = table.write(ONE, on=None)
    boundary = boundary_after(None, results, round_id="r-1")

    made = table.committer.commit(results, boundary=boundary, on=None, properties=properties)

    for seen in (made, table.head(), table.source.snapshot(made.snapshot_id)):
        assert seen.boundary == boundary
        assert seen.properties["fluss-offsets"] == properties["fluss-offsets"]
    assert boundary.ranges == {LakeBucket(None, 0): OffsetRange(0, 1)}
    assert (boundary.table, boundary.epoch) == (IDENTITY, EPOCH)


def test_a_boundary_of_many_partitions_and_buckets_comes_back(tables):
    columns = {"id": BigIntType(nullable=False), "p": DateType(nullable=False)}
    table = tables.make(columns, partition_keys=("p",), bucket_keys=("id",), bucket_count=3)

    made = table.tier([{"id": at, "p": at % 40} for at in range(400)])

    assert made.boundary.ranges.keys() >= {LakeBucket(0, 0), LakeBucket(39, 2)}
    assert table.head().boundary == made.boundary


def test_of_two_commits_on_one_snapshot_exactly_one_wins(table):
    head = table.tier(ONE)
    mine, other = table.write(TWO, on=head), table.write([{"id": 3, "name": "c"}], on=head)
    table.commit(mine, on=head)

    with pytest.raises(LakeMovedError):
        table.commit(other, on=head)

    assert ids(table) == [1, 2]
    assert len(table.source.snapshots()) == 2


def test_of_two_first_commits_exactly_one_wins(table):
    mine, other = table.write(ONE, on=None), table.write(TWO, on=None)
    table.commit(mine, on=None)

    with pytest.raises(LakeMovedError):
        table.commit(other, on=None)

    assert ids(table) == [1]


def test_a_commit_on_a_snapshot_two_steps_back_is_refused(table):
    first = table.tier(ONE)
    results = table.write([{"id": 9, "name": "z"}], on=first)
    table.tier(TWO)
    table.commit([], on=table.head())

    with pytest.raises(LakeMovedError):
        table.commit(results, on=first)

    assert ids(table) == [1, 2]


def test_of_many_threads_that_commit_at_once_exactly_one_wins(table):
    head = table.tier(ONE)
    every = [table.write([{"id": 10 + at, "name": "t"}], on=head) for at in range(4)]
    together = threading.Barrier(4)

    def attempt(results) -> bool:
        together.wait(30)
        try:
            table.commit(results, on=head)
        except LakeMovedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(attempt, every))

    assert sum(won) == 1
    assert ids(table) == [1, 10 + won.index(True)]


def test_the_loser_can_commit_the_same_results_after_a_look_at_the_head(tables):
    table = tables.make()
    head = table.tier(ONE)
    results = table.write(TWO, on=head)
    table.commit([], on=head)
    with pytest.raises(LakeMovedError):
        table.commit(results, on=head)

    table.commit(results, on=table.head())

    assert ids(table) == [1, 2]


def test_the_loser_with_rows_by_key_can_commit_on_a_head_with_the_same_files(tables):
    table = tables.keyed()
    head = table.tier([*ONE, *TWO])
    results = table.write([{"id": 1, "name": "A"}], on=head)
    table.commit([], on=head)

    table.commit(results, on=table.head())

    assert [row["name"] for row in table.values()] == ["A", "b"]


def test_a_commit_without_results_only_moves_the_boundary(table):
    head = table.tier(ONE)
    boundary = boundary_after(head, [], round_id="empty")

    made = table.committer.commit([], boundary=boundary, on=head, properties={})

    assert made.snapshot_id != head.snapshot_id
    assert table.head().boundary.round_id == "empty"
    assert ids(table) == [1]


def test_a_first_commit_may_be_without_results(table):
    table.commit([], on=None)

    assert table.head().boundary is not None
    assert table.head().row_count == 0
    assert table.source.plan(table.head().snapshot_id) == []
    table.tier(ONE)
    assert ids(table) == [1]


def test_a_writer_without_rows_has_a_result_that_can_be_committed(lake, table):
    (task,) = table.committer.write_tasks([((), 0)], on=None)
    result = lake.writer(table.spec, task).finish()

    table.commit([result], on=None)

    assert (result.row_count, result.file_count) == (0, 0)
    assert table.values() == []


def test_a_round_is_found_by_its_id(table):
    first = table.tier(ONE, round_id="first")
    table.tier(TWO, round_id="second")

    assert table.committer.find_round("first") == first
    assert table.committer.find_round("second") == table.head()
    assert table.committer.find_round("third") is None


def test_the_same_results_are_not_committed_twice(table):
    results = table.write(ONE, on=None)
    table.commit(results, on=None)

    with pytest.raises(HeadwaterError):
        table.commit(results, on=table.head())

    assert ids(table) == [1]
    assert len(table.source.snapshots()) == 1


def test_one_result_given_twice_is_refused(table):
    results = table.write(ONE, on=None)

    with pytest.raises(HeadwaterError):
        table.commit([*results, *results], on=None)

    assert table.committer.head() is None


def files_below(directory) -> set[str]:
    return {str(each) for each in directory.rglob("*") if each.is_file()}


def test_aborted_results_leave_no_file_and_take_no_other(table, lake_directory):
    table.tier(ONE)
    before = files_below(lake_directory)
    results = table.write(TWO, on=table.head())
    written = files_below(lake_directory) - before

    table.committer.abort(results)

    assert written
    assert files_below(lake_directory) == before
    assert ids(table) == [1]


def test_aborting_what_is_committed_removes_nothing(table):
    head = table.committer.head()
    results = table.write(ONE, on=head)
    table.commit(results, on=head)

    table.committer.abort(results)

    assert ids(table) == [1]


def test_an_aborted_writer_leaves_no_file(lake, table, lake_directory):
    table.tier(ONE)
    before = files_below(lake_directory)
    (task,) = table.committer.write_tasks([((), 0)], on=table.head())
    writer = lake.writer(table.spec, task)
    writer.write(table.batch(TWO))

    writer.abort()

    assert files_below(lake_directory) == before


def test_aborting_twice_is_no_error(table):
    results = table.write(ONE, on=None)

    table.committer.abort(results)
    table.committer.abort(results)

    assert table.committer.head() is None
