"""Tails that are written beside the lake: only what is new, and never too little or too much."""

import pytest

from headwater.engines.duckdb import tail_files
from headwater.engines.duckdb.tail_files import TailFiles, TailPlace
from headwater.errors import PositionMissingError
from tests.engines.duckdb.world import some


@pytest.fixture
def table(world):
    made = world.table(buckets=2)
    made.append(some(*range(10)))
    world.tier(made)
    made.append(some(*range(10, 30)))
    return made


def written(files: TailFiles, table):
    """Return the files of the tail of a table as it is now, and how many rows they have."""
    view = table.view()
    plan = view.native_plan()
    with_tail = files.with_tail(view, plan)
    if with_tail is plan:
        return [], 0
    found = with_tail.groups[-1].files
    return [file.path for file in found], sum(file.row_count for file in found)


def test_only_rows_that_came_since_are_written(table):
    files = TailFiles(TailPlace())
    first, before = written(files, table)

    table.append(some(30))
    second, after = written(files, table)

    assert (before, after) == (20, 21)
    assert second[: len(first)] == first
    assert len(second) == len(first) + 1


def test_nothing_is_written_where_nothing_came(table):
    files = TailFiles(TailPlace())

    assert written(files, table) == written(files, table)


def test_small_files_are_put_together(world, table):
    files = TailFiles(TailPlace())

    counts = []
    for number in range(40):
        table.append(some(100 + number))
        paths, rows = written(files, table)
        counts.append(len(paths))
        assert rows == 21 + number

    assert max(counts) <= 8


def test_a_round_of_tiering_begins_anew(world, table):
    files = TailFiles(TailPlace())
    before, _ = written(files, table)

    world.tier(table)
    table.append(some(50, 51))
    after, rows = written(files, table)

    assert rows == 2
    assert not set(after) & set(before)


def test_a_file_that_somebody_removed_is_written_again(table):
    files = TailFiles(TailPlace())
    (path,), _ = written(files, table)
    tail_files.Path(path).unlink()

    (again,), rows = written(files, table)

    assert rows == 20
    assert tail_files.Path(again).exists()


def test_a_table_without_a_lake_is_read_from_files_as_well(world):
    table = world.hw.create_table("small", {"id": "INT", "name": "STRING"}, exists_ok=True)
    table.append([(1, "a"), (2, "b")])

    _, rows = written(TailFiles(TailPlace()), table)

    assert rows == 2
    assert world.check(table) == 2


def test_a_long_tail_is_streamed(table, monkeypatch):
    monkeypatch.setattr(tail_files, "ROWS_MAX", 19)

    assert written(TailFiles(TailPlace()), table) == ([], 0)


def test_a_wide_tail_is_streamed(world, table, monkeypatch):
    monkeypatch.setattr(tail_files, "BYTES_MAX", 100)

    assert written(TailFiles(TailPlace()), table) == ([], 0)
    assert world.check(table) == 30


def test_a_place_that_cannot_be_written_is_done_without(table, monkeypatch):
    files = TailFiles(TailPlace())
    monkeypatch.setattr(tail_files, "mkdtemp", lambda prefix: "/proc/none/here")

    assert written(files, table) == ([], 0)


def test_a_reader_that_looked_before_another_gets_its_own_rows(table):
    files = TailFiles(TailPlace())
    earlier = table.view()
    table.append(some(40))
    written(files, table)

    plan = earlier.native_plan()

    assert files.with_tail(earlier, plan) is plan


def test_the_files_go_with_what_wrote_them(table):
    files = TailFiles(TailPlace())
    (path, *_), _ = written(files, table)
    directory = tail_files.Path(path).parent

    del files

    assert not directory.exists()


def test_a_query_looks_again_where_retention_was_faster_than_its_plan(world, table, monkeypatch):
    lost = [PositionMissingError("Rows are gone."), PositionMissingError("Rows are gone.")]
    with_tail = TailFiles.with_tail

    def overtaken(files, view, plan):
        if lost:
            raise lost.pop()
        return with_tail(files, view, plan)

    monkeypatch.setattr(TailFiles, "with_tail", overtaken)

    assert world.rows(f"SELECT count(*) FROM {world.read(table)}") == [(30,)]
