"""Views of a table while others tier, expire, drop and write."""

from contextlib import closing
from dataclasses import replace

import pytest

from headwater import errors
from headwater.config.client import ClientSettings
from headwater.lake.lakes import Lakes
from headwater.read.tails import TailCache, Tails
from tests.contract.lakes import counted, ids, rows


@pytest.fixture
def log(lakeside):
    table = lakeside.log(buckets=1)
    table.append(rows(*range(10)))
    lakeside.tier(table)
    table.append(rows(*range(10, 15)))
    return table


@pytest.fixture
def keyed(lakeside):
    table = lakeside.keyed(buckets=1)
    table.upsert(rows(*range(10)))
    lakeside.tier(table)
    table.upsert(rows(*range(5, 12), text="b"))
    table.delete([0])
    return table


@pytest.fixture
def cache(client):
    """Return what the client keeps of logs, which is nothing as yet."""

    async def emptied(awaiting):
        tails = Tails.of(awaiting.cluster)
        tails.cache = TailCache(awaiting.cluster.settings.union_tail_bytes_max)
        return tails.cache

    yield client.run(emptied)
    client.run(emptied)


@pytest.fixture
def small_memory(client):
    """Let changes go to files soon."""

    async def put(awaiting, settings):
        before, awaiting.cluster.settings = awaiting.cluster.settings, settings(awaiting.cluster)
        return before

    small = client.run(lambda each: put(each, lambda cluster: _small(cluster.settings)))
    yield
    client.run(lambda each: put(each, lambda _: small))


def _small(settings: ClientSettings) -> ClientSettings:
    return replace(settings, union_memory_bytes_max=64 * 1024)


def read(view, splits):
    return [row for batch in view.read(splits) for row in batch.to_pylist()]


# ---- between plan and read


def test_tiering_between_plan_and_read_changes_nothing(lakeside, log, keyed):
    for table in (log, keyed):
        view = table.view()
        before, splits = counted(view.scan()), view.plan().splits

        lakeside.tier(table)

        assert sorted(row["id"] for row in read(view, splits)) == sorted(
            dict(row)["id"] for row in before
        )


def test_a_snapshot_that_expires_between_plan_and_read_is_told(lakeside, keyed):
    view = keyed.view()
    splits = view.plan().splits

    lakeside.tier(keyed)
    lakeside.expire(keyed)
    lakeside.lose_files(splits)

    with pytest.raises(errors.PositionMissingError, match="is gone since the position"):
        read(view, splits)


def test_a_scan_finds_a_new_snapshot_where_the_reported_one_expired(lakeside, keyed):
    before = counted(keyed.scan())
    for number in range(6):
        keyed.upsert(rows(number, text="d"))
        lakeside.tier(keyed)
    keyed.upsert(rows(*range(6)))
    plan = keyed.view().plan()

    lakeside.compact(keyed)
    lakeside.expire(keyed)
    lakeside.lose_files(plan.splits)

    assert len(before) == 11
    assert counted(keyed.scan()) == counted(keyed.scan(mode="log"))


def test_a_partition_that_is_dropped_between_plan_and_read_is_told(lakeside):
    schema = {"id": "BIGINT", "day": "STRING"}
    table = lakeside.log(schema=schema, partition_by="day", buckets=1)
    table.append([{"id": 1, "day": "mon"}, {"id": 2, "day": "tue"}])
    view = table.view()
    splits = view.plan().splits

    table.drop_partition({"day": "mon"})

    with pytest.raises(errors.PositionMissingError, match="gone since"):
        read(view, splits)
    assert ids(table.scan()) == [2]


# ---- what is kept between reads


def test_only_what_came_since_is_fetched_again(cache, log, keyed):
    for table in (log, keyed):
        first = counted(table.scan())
        kept = cache.byte_count

        assert kept > 0
        assert counted(table.scan()) == first
        assert cache.byte_count == kept


@pytest.mark.parametrize("bytes_max", [0, 100, 2**20])
def test_rows_are_the_same_whatever_is_kept(lakeside, cache, keyed, log, bytes_max):
    cache.bytes_max = bytes_max
    for number in range(20, 24):
        log.append(rows(number))
        keyed.upsert(rows(number, number - 20, text="c"))
        if number == 22:
            lakeside.tier(log)
            lakeside.tier(keyed)

        assert ids(log.scan()) == [*range(15), *range(20, number + 1)]
        assert counted(keyed.scan()) == counted(keyed.scan(mode="log"))
        assert ids(log.scan(columns=["id"])) == ids(log.scan())
    assert cache.byte_count <= bytes_max


def test_an_older_position_is_read_beside_what_is_kept_of_a_later_one(log, keyed):
    views = [log.view(), keyed.view()]
    before = [counted(view.scan()) for view in views]
    log.append(rows(30))
    keyed.upsert(rows(6, 30, text="c"))

    log.scan().to_arrow()
    keyed.scan().to_arrow()

    assert [counted(view.scan()) for view in views] == before
    assert ids(log.scan()) == [*range(15), 30]


def test_two_scans_that_are_read_in_turns_do_not_wait_for_each_other(log, keyed):
    for table in (log, keyed):
        with closing(iter(table.scan())) as first, closing(iter(table.scan())) as second:
            found = [next(first).num_rows, next(second).num_rows]

        assert min(found) > 0


def test_changes_beyond_the_memory_limit_go_to_files(small_memory, lakeside):
    table = lakeside.keyed(buckets=1)
    table.upsert(rows(*range(5_000)))
    lakeside.tier(table)
    table.upsert(rows(*range(1_000, 9_000), text="b"))
    table.delete(list(range(500)))

    assert counted(table.scan()) == counted(table.scan(mode="log"))
    assert counted(table.scan(where=("id", "<", 1_005))) == counted(
        table.scan(where=("id", "<", 1_005), mode="log")
    )


# ---- lakes that cannot be read


def test_a_format_that_is_not_installed_is_told_with_the_way_out(client, keyed):
    def missing(name, _config):
        raise errors.UnsupportedError(f"'{name}' needs a package.", hint="Run: pip install it.")

    set_lakes(client, Lakes(opener=missing))

    with pytest.raises(errors.UnsupportedError, match="Or read with mode='log'"):
        keyed.scan().to_arrow()
    assert len(ids(keyed.scan(mode="log"))) == 11


def set_lakes(client, lakes) -> None:
    async def put(awaiting) -> None:
        awaiting.cluster.lakes = lakes

    client.run(put)
