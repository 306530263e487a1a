"""Tails by key that are written as files, and changed keys that become positions in lake files."""

from pathlib import Path

import pytest

from headwater.engines.duckdb import keyed_files
from headwater.engines.duckdb.keyed_files import KeyedFiles
from headwater.engines.duckdb.tail_files import TailPlace
from headwater.read.split import NativePlan
from tests.engines.duckdb.world import some


@pytest.fixture
def table(world):
    made = world.keyed(buckets=2)
    made.upsert(some(*range(100)))
    world.tier(made)
    made.upsert(some(*range(90, 110)))
    made.delete([(3,), (4,)])
    return made


@pytest.fixture
def files() -> KeyedFiles:
    return KeyedFiles(TailPlace())


def planned(files: KeyedFiles, table) -> NativePlan:
    view = table.view()
    return files.with_tail(view, view.native_plan())


def hidden_by(plan: NativePlan) -> set[str]:
    return {path for group in plan.groups for file in group.files for path in file.deletes}


def is_touched(plan: NativePlan) -> bool:
    return any(group.is_touched for group in plan.groups)


def test_a_short_tail_is_a_file_at_once_and_positions_are_found_when_it_is_asked_for_again(
    files, table
):
    first, second = planned(files, table), planned(files, table)

    assert (first.tail, second.tail) == ((), ())
    assert (is_touched(first), is_touched(second)) == (True, False)
    assert second.groups[-1].files[0].row_count == 20
    assert hidden_by(second)


def test_the_same_position_is_written_once(files, table):
    planned(files, table)

    second, third = planned(files, table), planned(files, table)

    assert second == third


def test_every_query_of_a_position_gives_the_same_rows(world, table):
    for _ in range(3):
        assert world.check(table) == 108


def test_another_position_begins_anew(world, files, table):
    before = [planned(files, table) for _ in range(2)][-1]

    table.upsert(some(0, 500))
    after = planned(files, table)

    assert is_touched(after)
    assert after.groups[-1].files[0].path != before.groups[-1].files[0].path
    assert [world.check(table) for _ in range(2)] == [109, 109]


def test_keys_that_only_the_tail_has_touch_no_file(world, files):
    table = world.keyed(buckets=1)
    table.upsert(some(*range(10)))
    world.tier(table)
    table.upsert(some(*range(10, 30)))

    plan = planned(files, table)

    assert not is_touched(plan)
    assert [world.check(table) for _ in range(2)] == [30, 30]


def test_a_long_tail_is_streamed_until_it_is_asked_for_again(files, table, monkeypatch):
    monkeypatch.setattr(keyed_files, "ROWS_AT_ONCE", 5)

    first, second = planned(files, table), planned(files, table)

    assert (bool(first.tail), bool(second.tail)) == (True, False)


def test_a_tail_that_is_too_long_stays_a_stream_and_its_positions_are_found(
    world, files, table, monkeypatch
):
    monkeypatch.setattr(keyed_files, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(keyed_files, "BYTES_MAX", 10)

    plans = [planned(files, table) for _ in range(3)]

    assert all(plan.tail for plan in plans)
    assert [is_touched(plan) for plan in plans] == [True, False, False]
    assert [world.check(table) for _ in range(3)] == [108] * 3


def test_too_many_rows_of_the_lake_are_left_to_the_join(files, table, monkeypatch):
    monkeypatch.setattr(keyed_files, "LAKE_ROWS_MAX", 50)
    planned(files, table)

    assert is_touched(planned(files, table))


def test_keys_of_files_are_kept_up_to_a_limit(files, table, monkeypatch):
    monkeypatch.setattr(keyed_files, "KEYS_BYTES_MAX", 500)
    for _ in range(2):
        planned(files, table)

    keys = files._keys

    assert 0 < keys._bytes <= 500
    assert len(keys._kept) == 1


def test_files_that_somebody_removed_are_written_again(files, table):
    second = [planned(files, table) for _ in range(2)][-1]
    for path in [*hidden_by(second), second.groups[-1].files[0].path]:
        Path(path).unlink()

    again = [planned(files, table) for _ in range(2)][-1]

    assert all(Path(path).exists() for path in hidden_by(again))
    assert Path(again.groups[-1].files[0].path).exists()


def test_a_column_called_like_a_position_is_joined_by_key(world):
    table = world.keyed({"id": "BIGINT", "file_index": "BIGINT"}, buckets=1)
    table.upsert([(number, number) for number in range(10)])
    world.tier(table)
    table.upsert([(3, 30)])

    assert [world.check(table) for _ in range(3)] == [10] * 3


def test_a_small_table_without_a_lake_is_a_file_when_it_is_asked_for_again(world, files):
    table = world.hw.create_table(
        "nations", {"id": "INT NOT NULL", "name": "STRING"}, primary_key="id", exists_ok=True
    )
    table.upsert([(1, "de"), (2, "fr")])

    first, second = planned(files, table), planned(files, table)

    assert (bool(first.tail), bool(second.tail)) == (True, False)
    assert [world.check(table) for _ in range(2)] == [2, 2]
