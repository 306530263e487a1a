"""A table at a position: lake and log read as one, now and later."""

import pickle
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from headwater import Place, Tier, errors
from headwater.client.view import AsyncView
from tests.contract.lakes import counted, ids, rows


@pytest.fixture
def log(lakeside):
    """Make a log table of which ids 0 to 9 are in the lake, and 10 to 14 in the log alone."""
    table = lakeside.log()
    table.append(rows(*range(10)))
    lakeside.tier(table)
    table.append(rows(*range(10, 15)))
    return table


@pytest.fixture
def keyed(lakeside):
    """Make a primary-key table that was changed since it was tiered."""
    table = lakeside.keyed()
    table.upsert(rows(*range(10)))
    lakeside.tier(table)
    table.upsert(rows(*range(5, 12), text="b"))
    table.delete([0, 5])
    return table


def expected_of_keyed() -> Counter:
    found = [*rows(*range(1, 5)), *rows(*range(6, 12), text="b")]
    return Counter(tuple(sorted(row.items())) for row in found)


# ---- what is there now


def test_a_scan_gives_rows_of_lake_and_log_once(log):
    assert ids(log.scan()) == list(range(15))
    assert log.count() == 15


def test_a_scan_by_key_gives_the_last_of_each(keyed):
    assert counted(keyed.scan()) == expected_of_keyed()
    assert keyed.count() == 10


def test_columns_filters_and_limits_are_for_both_halves(log, keyed):
    assert log.scan(columns="text", where=("id", ">=", 8)).to_arrow().num_rows == 7
    assert keyed.scan(columns=["text"], where=("id", "<", 3)).schema.names == ["text"]
    assert ids(keyed.scan(where=("text", "starts with", "b"))) == list(range(6, 12))
    assert keyed.scan(limit=3).to_arrow().num_rows == 3
    assert log.scan(limit=0).to_arrow().num_rows == 0


def test_lake_and_log_can_be_read_alone(log, keyed):
    assert ids(log.scan(mode="lake")) == list(range(10))
    assert counted(keyed.scan(mode="lake")) == counted_rows(rows(*range(10)))
    assert counted(keyed.scan(mode="log")) == expected_of_keyed()


def counted_rows(found) -> Counter:
    return Counter(tuple(sorted(row.items())) for row in found)


def test_a_table_that_was_never_tiered_is_read_from_its_log(lakeside):
    table = lakeside.keyed()
    table.upsert(rows(1, 2))

    assert ids(table.scan()) == [1, 2]
    assert ids(table.view().scan()) == [1, 2]
    assert "Nothing was tiered yet." in table.view().value.notes
    with pytest.raises(errors.LakeSnapshotMissingError, match="holds nothing"):
        table.view(mode="lake")


def test_a_scan_goes_on_where_its_offsets_say(log):
    scan = log.scan()
    scan.to_arrow()

    log.append(rows(20))

    with log.tail(scan.offsets) as tail:
        found = [row for batch in tail.poll(timeout_s=10.0) for row in batch.rows.to_pylist()]
    assert [row["id"] for row in found] == [20]


def test_a_scan_that_is_left_early_ends(log):
    with closing(iter(log.scan())) as batches:
        next(batches)

    assert ids(log.scan()) == list(range(15))


# ---- one position, however often


def test_a_view_gives_the_same_rows_after_writes_and_tiering(lakeside, keyed):
    view = keyed.view()
    before = counted(view.scan())

    keyed.upsert(rows(*range(20), text="c"))
    lakeside.tier(keyed)

    assert counted(view.scan()) == before == expected_of_keyed()


def test_a_token_gives_the_same_rows_after_its_snapshot_expired(lakeside, log):
    token = log.view().token()

    log.append(rows(30))
    lakeside.tier(log)
    lakeside.expire(log)

    assert ids(log.scan(token=token)) == list(range(15))


def test_a_view_whose_lake_table_was_dropped_says_that_it_is_gone(lakeside, log):
    view = log.view()

    lakeside.lakes.of(log.info).catalog().drop(log.path)

    with pytest.raises(errors.PositionMissingError, match="gone since the position was taken"):
        view.scan().to_arrow()


def test_a_token_has_the_columns_of_its_time(log):
    token = log.view().token()

    log.add_column("more", "INT")
    log.append({"id": 40, "more": 1})

    assert log.scan(token=token).schema.names == ["id", "text"]
    assert ids(log.view(token=token).scan()) == list(range(15))
    assert log.view().schema.names == ["id", "text", "more"]


def test_a_view_has_columns_that_came_since_the_table_was_got(client, log):
    client.table(log.path).add_column("more", "INT")
    client.table(log.path).append({"id": 40, "more": 7})

    found = {row["id"]: row["more"] for row in log.view().scan().to_pylist()}

    assert found == {**dict.fromkeys(range(15)), 40: 7}


def test_a_token_of_another_table_is_refused(log, keyed):
    with pytest.raises(errors.InvalidTokenError, match="is for"):
        log.scan(token=keyed.view().token())
    with pytest.raises(errors.InvalidTokenError, match="checksum"):
        log.scan(token=log.view().token()[:-4])


def test_the_value_of_a_view_travels(client, keyed):
    value = pickle.loads(pickle.dumps(keyed.view().value))

    async def read(awaiting):
        view = AsyncView.of(awaiting.cluster, value)
        return await view.scan().to_arrow()

    assert sorted(client.run(read)["id"].to_pylist()) == sorted([1, 2, 3, 4, 6, 7, 8, 9, 10, 11])


# ---- other positions


def test_a_snapshot_is_read_by_its_id(lakeside, log):
    newest = lakeside.tier(log)
    log.append(rows(50))

    assert ids(log.scan(snapshot_id=newest)) == list(range(15))
    with pytest.raises(errors.LakeSnapshotMissingError, match=str(newest)):
        log.scan(snapshot_id=12345).to_arrow()


def test_a_moment_is_read_the_same_before_and_after_tiering(lakeside, keyed):
    moment = datetime.now(UTC) + timedelta(milliseconds=2)
    while datetime.now(UTC) <= moment:
        pass
    keyed.upsert(rows(1, text="later"))
    before = counted(keyed.scan(as_of=moment))

    lakeside.tier(keyed)

    assert counted(keyed.scan(as_of=moment)) == before == expected_of_keyed()
    assert counted(keyed.scan(as_of=int(moment.timestamp() * 1000))) == before


def test_offsets_are_read_the_same_before_and_after_tiering(lakeside, log):
    offsets = log.offsets()
    log.append(rows(*range(60, 70)))
    before = ids(log.scan(offsets=offsets))

    lakeside.tier(log)

    assert ids(log.scan(offsets=offsets)) == before == list(range(15))
    assert ids(log.scan(end=offsets)) == before


def test_offsets_beyond_the_end_are_refused(log):
    with pytest.raises(errors.OffsetOutOfRangeError, match="has no offset 1000"):
        log.view(offsets={0: 1000})


def test_a_position_is_named_in_one_way(log):
    with pytest.raises(errors.RequestError, match="2 ways"):
        log.view(snapshot_id=1, as_of=0)
    with pytest.raises(errors.RequestError, match="no mode"):
        log.scan(mode="both")


def test_a_part_of_the_log_is_read_as_before(log):
    middle = dict.fromkeys(log.offsets(), 0)

    assert ids(log.scan(start=middle, end="latest")) == list(range(15))
    assert ids(log.scan(start="earliest")) == list(range(15))


# ---- plans


def test_splits_are_read_one_by_one(keyed):
    view = keyed.view()
    splits = view.plan().splits

    found = [row for split in splits for batch in view.read([split]) for row in batch.to_pylist()]

    assert {split.tier for split in splits} == {Tier.HYBRID}
    assert counted_rows(found) == expected_of_keyed()


def test_a_native_plan_parts_the_rows_between_engine_and_reader(keyed):
    view = keyed.view()
    plan = view.native_plan()

    changed = view.changed_keys(plan.tail)
    tail = pa.Table.from_batches(view.tail_rows(plan.tail), view.schema)

    assert plan.key == ("id",)
    # 10 and 11 are new, so the lake cannot hold them.
    assert sorted(changed["id"].to_pylist()) == [0, *range(5, 10)]
    assert sorted(tail["id"].to_pylist()) == list(range(6, 12))
    assert sum(file.row_count for group in plan.groups for file in group.files) == 10


def test_an_explanation_names_tiers_snapshot_and_offsets(log):
    text = str(log.scan(where=("id", ">", 3)).explain())

    assert "LAKE_ONLY" in text
    assert "LOG_ONLY" in text
    assert "id > 3" in text
    assert log.view().explain().to_json()["table"] == str(log.path)


def test_an_explanation_names_the_moment_that_was_asked_for(keyed):
    now = datetime.now(UTC)
    moment = now.replace(microsecond=now.microsecond // 1000 * 1000)
    told = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    explained = [keyed.scan(as_of=moment).explain(), keyed.view(as_of=moment).explain()]

    for each in explained:
        assert f"as of {told}, as asked" in str(each)


# ---- partitions


@pytest.fixture
def by_day(lakeside):
    schema = {"id": "BIGINT", "day": "STRING"}
    table = lakeside.log(schema=schema, partition_by="day", buckets=1)
    table.append([{"id": 1, "day": "mon"}, {"id": 2, "day": "tue"}])
    lakeside.tier(table)
    table.append([{"id": 3, "day": "mon"}, {"id": 4, "day": "wed"}])
    return table


def test_rows_of_a_dropped_partition_stay_as_far_as_the_lake_holds_them(by_day):
    by_day.drop_partition({"day": "mon"})

    assert ids(by_day.scan()) == [1, 2, 4]
    assert by_day.count() == 3
    assert ids(by_day.scan(partitions=[{"day": "mon"}])) == [1]


def test_partitions_are_named_in_lake_or_log(by_day):
    assert ids(by_day.scan(partitions=[{"day": "wed"}])) == [4]
    with pytest.raises(errors.PartitionMissingError, match="no partition fri"):
        by_day.scan(partitions=[{"day": "fri"}]).to_arrow()


def test_a_token_of_a_partition_that_was_dropped_says_that_it_is_gone(by_day):
    token = by_day.view().token()

    by_day.drop_partition({"day": "mon"})

    with pytest.raises(errors.PositionMissingError):
        by_day.view(token=token)


def test_a_view_ends_at_its_position_in_partitions_that_come_later(by_day):
    view = by_day.view()

    by_day.append({"id": 9, "day": "fri"})

    assert ids(view.scan()) == [1, 2, 3, 4]
    assert ids(by_day.scan(token=view.token())) == [1, 2, 3, 4]
    assert Place("wed", 0) in view.offsets
