"""Batches of tables with a lake, as Spark drives them."""

import pytest

from headwater.engines.spark.read.batch import row_count
from headwater.errors import InvalidTokenError, LakeSnapshotMissingError
from headwater.read.split import Tier
from tests.engines.spark.lakes import lake_table, rows, tier
from tests.engines.spark.reading.reader_run import batch_reader, read_batch, source_options


def found(table, served, **options) -> list[tuple]:
    return contents(read_batch(batch_reader(table, served.address, **options)))


def contents(table) -> list[tuple]:
    return sorted(map(tuple, map(dict.values, table.to_pylist())))


@pytest.fixture(
    params=[("iceberg", ()), ("iceberg", "id"), ("paimon", "id")],
    ids=["iceberg log", "iceberg by key", "paimon by key"],
)
def mixed(request, served):
    """Have a table with old rows in the lake and new ones in the log."""
    lake_format, key = request.param
    traits = {"primary_key": key} if key else {}
    table = lake_table(served, lake_format=lake_format, rows=rows(0, 8), **traits)
    tier(served, table)
    if key:
        table.upsert(rows(6, 12, "new"))
        table.delete([{"id": 0}])
    else:
        table.append(rows(8, 12))
    return table


def test_lake_and_log_are_read_as_one(served, mixed):
    view = mixed.view()
    mine = found(mixed, served)

    assert mine == found(mixed, served, scan__token=view.token())
    assert mine == contents(view.scan().to_arrow())
    assert len(mine) == (11 if mixed.is_keyed else 12)


def test_a_read_shows_the_same_rows_however_often_and_whatever_is_tiered(served, mixed):
    reader = batch_reader(mixed, served.address)
    first = contents(read_batch(reader))
    planned = reader.partitions()

    (mixed.upsert if mixed.is_keyed else mixed.append)(rows(20, 25))
    tier(served, mixed)

    again = [row for share in planned for batch in reader.read(share) for row in batch.to_pylist()]
    assert sorted(map(tuple, map(dict.values, again))) == first
    assert len(found(mixed, served)) == len(first) + 5


def test_columns_rows_and_a_limit_are_chosen_in_the_plan(served, mixed):
    chosen = found(mixed, served, scan__columns="name", scan__filter='[["id", ">", 9]]')

    assert [name[-2:] for (name,) in chosen] == ["10", "11"]
    assert len(found(mixed, served, scan__limit="3")) == 3
    assert found(mixed, served, scan__limit="0") == []


def test_the_lake_or_the_servers_can_be_read_alone(served, mixed):
    of_lake = found(mixed, served, scan__mode="lake")
    of_servers = found(mixed, served, scan__mode="log")

    assert of_lake == [(number, f"n{number}") for number in range(8)]
    # The log of the test is kept, so that servers have all rows still.
    assert of_servers == found(mixed, served)


def test_small_splits_go_to_one_task(served, mixed):
    (share,) = batch_reader(mixed, served.address).partitions()

    tiers = {split.tier for split in share.value}
    assert tiers == ({Tier.HYBRID} if mixed.is_keyed else {Tier.LAKE_ONLY, Tier.LOG_ONLY})


def test_a_table_is_read_as_it_was_in_a_snapshot_or_at_offsets(served, mixed):
    snapshot = mixed.view().value.snapshot
    assert snapshot is not None

    by_snapshot = found(mixed, served, scan__snapshot_id=str(snapshot.snapshot_id))
    assert by_snapshot == [(number, f"n{number}") for number in range(8)]
    with pytest.raises(LakeSnapshotMissingError, match=str(snapshot.snapshot_id)):
        found(mixed, served, scan__snapshot_id="77")


def test_rows_are_counted_without_reading_them_where_that_is_exact(served, mixed):
    count = row_count(source_options(mixed, served.address, {}))

    assert count == len(found(mixed, served))
    pinned = {"scan__token": mixed.view().token()}
    expected = None if mixed.is_keyed else count
    assert row_count(source_options(mixed, served.address, pinned)) == expected


def test_a_token_that_is_none_is_refused(served, mixed):
    with pytest.raises(InvalidTokenError) as caught:
        found(mixed, served, scan__token="hw1.x")

    assert caught.value.hint
