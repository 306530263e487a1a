"""Time travel and parts of logs in SQL."""

from datetime import UTC, datetime

import duckdb
import pytest

from tests.engines.duckdb.world import some


def test_a_token_gives_the_same_rows_later(world):
    for table, write in ((log := world.table(), log.append), (key := world.keyed(), key.upsert)):
        write(some(*range(5)))
        world.tier(table)
        write(some(3, 9, city="Bonn"))
        token = table.view().token()
        sql = f"SELECT * FROM {world.read(table, token=token)} ORDER BY ALL"

        before = world.rows(sql)
        write(some(4, 5, 6, city="later"))
        world.tier(table)
        write(some(7, city="later"))

        assert len(before) == (6 if table.is_keyed else 7)
        assert world.rows(sql) == before


def test_a_token_keeps_the_columns_of_its_time(world):
    table = world.table()
    table.append(some(1, 2))
    world.tier(table)
    token = table.view().token()

    table.add_column("tip", "INT")
    table.rename_column("city", "place")
    found = world.arrow(f"FROM {world.read(table, token=token)}")

    assert found.column_names == ["id", "city", "amount"]
    assert found.num_rows == 2


def test_a_snapshot_is_read_by_its_id(world):
    table = world.keyed()
    for number in range(3):
        table.upsert(some(number))
        world.tier(table)
    listed = world.rows(
        f"SELECT snapshot_id FROM fluss_snapshots('fluss', '{table.path.table}')"
        " ORDER BY committed_at"
    )

    found = [
        world.rows(f"SELECT count(*) FROM {world.read(table, f'snapshot_id := {each}')}")[0][0]
        for (each,) in listed
    ]

    # The first is of the moment when the table was made in the lake.
    assert sorted(set(found) - {0}) == [1, 2, 3]


def test_a_table_without_a_lake_has_no_snapshots(world):
    world.hw.create_table("ashore", {"id": "INT"}, exists_ok=True)

    assert world.rows("FROM fluss_snapshots('fluss', 'ashore')") == []


def test_a_moment_can_be_written_in_several_ways(world):
    table = world.table()
    table.append(some(1, 2))
    between = now_ms(world)
    table.append(some(3))
    moment = datetime.fromtimestamp(between / 1000, UTC)
    ways = [
        f"{between}",
        f"TIMESTAMPTZ '{moment.isoformat()}'",
        f"'{moment.isoformat()}'",
        f"TIMESTAMPTZ '{moment.isoformat()}' + INTERVAL 0 SECOND",
        f"make_timestamp({between * 1000}) AT TIME ZONE 'UTC' AT TIME ZONE 'Etc/UTC'",
    ]

    world.rows("SET TimeZone = 'Etc/UTC'")
    found = [world.rows(f"SELECT count(*) FROM {world.read(table, f'as_of := {w}')}") for w in ways]

    assert found == [[(2,)]] * len(ways)


def test_an_answer_for_a_moment_does_not_change_when_tiering_runs(world):
    table = world.table()
    table.append(some(*range(4)))
    moment = now_ms(world)
    table.append(some(5))
    sql = f"SELECT count(*) FROM {world.read(table, f'as_of := {moment}')}"

    before = world.rows(sql)
    world.tier(table)

    assert before == world.rows(sql) == [(4,)]


def now_ms(world) -> int:
    """Return a moment after all that was written, and wait until it has passed."""
    sql = "SELECT epoch_ms(get_current_timestamp())"
    (now,) = world.con.execute(sql).fetchone()
    while world.con.execute(sql).fetchone()[0] <= now + 1:
        pass
    return now + 1


def test_the_lake_and_the_log_can_be_read_alone(world):
    table = world.table()
    table.append(some(*range(4)))
    world.tier(table)
    table.append(some(5))

    counts = {
        mode: world.rows(f"SELECT count(*) FROM {world.read(table, mode=mode)}")[0][0]
        for mode in ("union", "lake", "log", "LAKE")
    }

    assert counts == {"union": 5, "lake": 4, "log": 5, "LAKE": 4}


def test_a_position_is_given_by_offsets(world):
    table = world.table(buckets=1)
    table.append(some(*range(6)))

    ranges = (
        "to_offsets := MAP {0: 4}",
        "from_offsets := MAP {0: 2}, to_offsets := MAP {0: 5}",
        """from_offsets := '{"0": 4}'""",
    )
    found = [world.rows(f"SELECT id FROM {world.read(table, each)}") for each in ranges]

    assert [sorted(rows) for rows in found] == [
        [(0,), (1,), (2,), (3,)],
        [(2,), (3,), (4,)],
        [(4,), (5,)],
    ]


def test_buckets_of_partitions_are_named_with_them(world):
    table = world.table({"id": "BIGINT", "day": "STRING"}, partition_by="day", buckets=1)
    table.append([(1, "a"), (2, "a"), (3, "b")])

    read = world.read(table, "to_offsets := MAP {'a/0': 1}")
    found = world.rows(f"SELECT id FROM {read}")

    assert sorted(found) == [(1,), (3,)]


def test_a_range_of_time_is_read_from_the_log(world):
    table = world.table()
    table.append(some(1))
    first = now_ms(world)
    table.append(some(2, 3))
    second = now_ms(world)
    table.append(some(4))

    found = world.rows(
        f"SELECT id FROM {world.read(table, f'from_ts := {first}, to_ts := {second}')} ORDER BY 1"
    )

    assert found == [(2,), (3,)]


def test_the_changelog_tells_what_each_change_did(world):
    table = world.keyed(buckets=1)
    table.upsert(some(1))
    table.upsert(some(1, city="Bonn"))
    table.delete([{"id": 1}])
    read = world.read(table, mode="changelog")

    found = world.rows(f"SELECT _change_type, _log_offset, city FROM {read} ORDER BY 2")
    described = world.rows(f"SELECT DISTINCT typeof(_commit_timestamp) FROM {read}")

    assert found == [
        ("insert", 0, "Ulm1"),
        ("update_before", 1, "Ulm1"),
        ("update_after", 2, "Bonn1"),
        ("delete", 3, "Bonn1"),
    ]
    assert described == [("TIMESTAMP WITH TIME ZONE",)]


def test_virtual_tables_are_read_by_their_names(world):
    table = world.keyed(buckets=1)
    table.upsert(some(1))
    table.upsert(some(1, city="Bonn"))
    name = table.path.table

    changes = world.rows(f"SELECT count(*) FROM fluss_read('fluss', '{name}$changelog')")
    images = world.rows(f"SELECT before.city, after.city FROM fluss_read('fluss', '{name}$binlog')")

    assert changes == [(3,)]
    assert images == [(None, "Ulm1"), ("Ulm1", "Bonn1")]


def test_offsets_of_buckets_are_listed(world):
    table = world.table(buckets=2)
    table.append(some(*range(6)))
    world.tier(table)
    table.append(some(*range(6, 10)))

    found = world.rows(
        "SELECT sum(log_end), sum(lake_end), count(*), count(DISTINCT snapshot_id)"
        f" FROM fluss_offsets('fluss', '{table.path.table}')"
    )

    assert found == [(10, 6, 2, 1)]


def test_tables_are_listed(world):
    table = world.keyed()

    found = world.rows(
        "SELECT primary_key, bucket_count, lake_format FROM fluss_tables() WHERE table_name = ?",
        table.path.table,
    )
    elsewhere = world.rows("SELECT count(*) > 0 FROM fluss_tables(?)", world.hw.address)

    assert found == [(["id"], 3, world.format)]
    assert elsewhere == [(True,)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("mode := 'unoin'", "There is no mode 'unoin'.*'union', 'lake', 'log'"),
        ("mode := NULL", "There is no mode"),
        ("token := 'nonsense'", "token"),
        ("token := 'hw1.AAAA'", "token"),
        ("snapshot_id := 12345", "12345"),
        ("snapshot_id := 1.5", "not a whole number"),
        ("as_of := 'yesterday'", "as_of is 'yesterday', which is not a moment"),
        ("to_offsets := 7", "names no buckets"),
        ("to_offsets := MAP {'x': 1}", "not a bucket"),
        ("to_offsets := MAP {99: 1}", "99"),
        ("to_offsets := MAP {0: 10000}", "10000"),
        ("as_of := 1, to_ts := 2", "as_of and to_ts are given together"),
        ("from_ts := 2, token := 'x'", "token names a whole table"),
        ("from_ts := 9000, to_ts := 8000", "before it begins"),
    ],
)
def test_a_position_that_makes_no_sense_is_refused(world, options, message):
    table = world.table()
    table.append(some(1, 2, 3))
    world.tier(table)

    with pytest.raises(duckdb.Error, match=message):
        world.rows(f"SELECT * FROM {world.read(table, options)}")
