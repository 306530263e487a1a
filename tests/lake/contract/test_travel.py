"""What is planned in one process is done in another: everything pickles."""

import pickle
from datetime import date
from typing import TypeVar

import pytest

from headwater.errors import LakeMovedError
from headwater.lake.split import split_from_bytes, split_to_bytes
from headwater.model.predicate import Leaf, LeafFunction
from headwater.model.types import BigIntType, DateType, StringType
from tests.lake.lake_table import LakeTable

COLUMNS = {
    "id": BigIntType(nullable=False),
    "day": DateType(nullable=False),
    "name": StringType(),
}
ROWS = [{"id": at, "day": date(1970, 1, 1 + at % 2), "name": f"n{at}"} for at in range(6)]
PAYLOAD_BYTES_MAX = 64 * 1024
Value = TypeVar("Value")


@pytest.fixture(params=[(), ("id", "day")], ids=["log", "keyed"])
def table(tables, request):
    return tables.make(COLUMNS, key=request.param, partition_keys=("day",))


def sent(value: Value) -> Value:
    return pickle.loads(pickle.dumps(value))


def test_a_lake_and_a_table_arrive_as_they_left(lake, table):
    table.tier(ROWS)

    arrived = LakeTable(sent(lake), sent(table.spec))

    assert arrived.spec == table.spec
    assert arrived.lake.format == lake.format
    assert arrived.values() == table.values()
    assert arrived.head() == table.head()


def test_a_lake_that_was_used_still_travels(lake, table):
    table.tier(ROWS)
    table.values()
    lake.catalog().list_tables()

    assert sent(lake).catalog().exists(table.spec.path)


def test_tasks_and_results_travel_between_planning_writing_and_committing(lake, table):
    rows = table.batch(ROWS)
    groups = list(table.groups(rows))
    results = []

    tasks = table.committer.write_tasks([place for place, _ in groups], on=None)
    for task, (_, at) in zip(sent(tasks), groups, strict=True):
        writer = sent(lake).writer(sent(table.spec), task)
        writer.write(rows.take(at))
        results.append(sent(writer.finish()))
    table.commit(results, on=sent(table.committer.head()))

    assert table.values() == ROWS
    assert max(len(pickle.dumps(task)) for task in tasks) < PAYLOAD_BYTES_MAX
    assert max(len(pickle.dumps(result)) for result in results) < PAYLOAD_BYTES_MAX


def test_splits_travel_as_values_and_as_bytes(lake, table):
    table.tier(ROWS)
    table.tier(ROWS[:3])
    expected = table.values()

    splits = table.source.plan(table.head().snapshot_id)

    for arrived in (sent(splits), [split_from_bytes(split_to_bytes(split)) for split in splits]):
        assert arrived == splits
        source = sent(lake).source(table.spec)
        batches = [batch for split in arrived for batch in source.read(split)]
        found = [row for batch in batches for row in batch.to_pylist()]
        assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_source_travels_with_its_columns_and_filters(table):
    table.tier(ROWS)
    wanted = Leaf(LeafFunction.EQUAL, 0, (4,))
    source, _ = table.source.with_projection([("name",)]).with_filters([wanted])

    arrived = sent(source)

    splits = source.plan(table.head().snapshot_id)
    assert arrived.plan(table.head().snapshot_id) == splits
    names = [
        name
        for split in splits
        for batch in arrived.read(split)
        for name in batch["name"].to_pylist()
    ]
    assert "n4" in names


def test_rewrites_travel_to_workers(lake, tables):
    table = tables.keyed()
    for at in range(7):
        table.tier([{"id": at, "name": "x"}])
    head, keeper = table.head(), table.keeper

    works = keeper.plan_rewrites(on=head)
    results = [sent(sent(lake).keeper(table.spec).rewrite(sent(work))) for work in works]
    keeper.commit_rewrites(results, on=head)

    assert [row["id"] for row in table.values()] == list(range(7))
    assert sum(work.file_count for work in works) == 7
    assert all(work.byte_count > 0 for work in works)


def test_errors_of_the_lake_travel(table):
    head = table.tier(ROWS)
    table.commit([], on=head)

    with pytest.raises(LakeMovedError) as caught:
        table.commit([], on=head)

    assert type(sent(caught.value)) is type(caught.value)
    assert str(sent(caught.value)) == str(caught.value)
