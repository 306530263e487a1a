"""The rows of a primary-key table survive restarts, lost and damaged files, and retention."""

import asyncio
import shutil

import pytest

from headwater.kv.store import KvSettings
from headwater.server.tablets import StorageSettings
from tests.flows.appending import fetch
from tests.flows.upserting import Rows, keyed_json
from tests.server.support import (
    SMALL_SEGMENTS,
    FakeClock,
    HeldSyncs,
    connected,
    create_table,
    disk_with,
    earliest,
    flip_bit,
    running,
)

STORAGE = StorageSettings(SMALL_SEGMENTS, KvSettings(segment_bytes_max=2_000))
HOUR_MS = 3_600_000
KV_STORAGE_ERROR = 11
EVENTS = {"id": "INTEGER", "at": "BIGINT"}
BY_KIND = {"kind": "STRING", "id": "INTEGER", "score": "BIGINT"}


def kept(turns: int) -> list[tuple]:
    """Return the rows that are there after so many turns of `change`."""
    return [(n, f"n{n}", turns - 1) for n in range(100) if n % 10 != (turns - 1) % 10]


async def change(rows: Rows, turns: range) -> None:
    """Write a hundred rows and delete ten of them, each turn others."""
    for turn in turns:
        await rows.put(*((n, f"n{n}", turn) for n in range(100)))
        await rows.put(*((n,) for n in range(turn % 10, 100, 10)))


async def check(rows: Rows, turns: int) -> None:
    """Check that scan, lookups, count and the fold of the changelog all say the same."""
    folded = {row[0]: row for _, kind, row in await rows.changes() if kind != "-D"}
    expected = kept(turns)
    assert await rows.all() == expected
    assert await rows.row_count() == len(expected)
    found = await rows.get(*range(100))
    assert [row for row in found if row] == expected
    assert all(folded[row[0]] == row for row in expected)


def files(tmp_path, kind: str) -> list:
    return sorted(path for path in tmp_path.glob(f"log/1/0/kv/{kind}-*") if not path.suffix)


async def stopped(tmp_path, *, turns: int = 5, saves: tuple[int, ...] = ()) -> Rows:
    """Fill a table, saving the state behind some turns, and stop."""
    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        for turn in range(turns):
            await change(rows, range(turn, turn + 1))
            if turn in saves:
                await server.upkeep.save_states()
    return rows


async def check_again(tmp_path, rows: Rows, *, turns: int = 5) -> None:
    """Start, check what is there, and change it once more."""
    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        rows = rows.through(connection)
        await check(rows, turns)
        await change(rows, range(turns, turns + 1))
        await check(rows, turns + 1)


@pytest.mark.parametrize("saves", [(), (4,), (1, 3), (0, 1, 2, 3, 4)])
async def test_rows_survive_a_restart_with_any_snapshots(tmp_path, saves):
    rows = await stopped(tmp_path, saves=saves)

    assert len(files(tmp_path, "snapshot")) == min(len(saves), 2)
    await check_again(tmp_path, rows)


async def test_many_changes_are_saved_when_the_server_stops(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put(*((n, "x", n) for n in range(20_000)))

    async with running(tmp_path) as server, connected(server) as connection:
        rows = rows.through(connection)

        assert len(files(tmp_path, "snapshot")) == 1
        assert await rows.row_count() == 20_000
        assert await rows.get(0, 19_999, 20_000) == [(0, "x", 0), (19_999, "x", 19_999), None]


@pytest.mark.parametrize("saves", [(), (2,)])
async def test_a_state_whose_files_are_all_gone_is_rebuilt_from_the_log(tmp_path, saves):
    rows = await stopped(tmp_path, saves=saves)

    shutil.rmtree(tmp_path / "log/1/0/kv")

    await check_again(tmp_path, rows)


@pytest.mark.parametrize("kind", ["snapshot", "segment"])
@pytest.mark.parametrize("part", [0, 0.2, 0.5, 0.9])
async def test_a_damaged_file_is_set_aside_and_its_rows_are_rebuilt(tmp_path, kind, part):
    rows = await stopped(tmp_path, saves=(1, 3))
    victim = files(tmp_path, kind)[-1]
    flip_bit(victim, int(victim.stat().st_size * part))

    await check_again(tmp_path, rows)

    damaged = [path.name for path in tmp_path.glob("log/1/0/kv/*.damaged")]
    assert damaged == [f"{victim.name}.damaged"]


@pytest.mark.parametrize("kind", ["snapshot", "segment"])
async def test_a_file_that_is_cut_or_gone_is_no_loss(tmp_path, kind):
    rows = await stopped(tmp_path, saves=(1, 3))
    first, *_, last = files(tmp_path, kind)

    first.unlink()
    last.write_bytes(last.read_bytes()[:-20])

    await check_again(tmp_path, rows)


async def test_what_only_an_older_snapshot_knows_is_found_when_the_newest_is_damaged(tmp_path):
    rows = await stopped(tmp_path, saves=(1, 3))

    flip_bit(files(tmp_path, "snapshot")[-1], 30)

    await check_again(tmp_path, rows)


async def test_compaction_keeps_every_row_and_its_files_survive_a_restart(tmp_path):
    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        for turn in range(6):
            await change(rows, range(turn, turn + 1))
            await server.upkeep.tend_states()
            await check(rows, turn + 1)
        await server.upkeep.save_states()

        sizes = sum(path.stat().st_size for path in files(tmp_path, "segment"))
        assert sizes < 12_000, "what is dead was dropped"

    await check_again(tmp_path, rows, turns=6)


async def test_rows_found_by_their_prefix_survive_a_restart(tmp_path):
    content = keyed_json(BY_KIND, key=["kind", "id"], bucket_key=["kind"])
    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        rows = await Rows.create(connection, content)
        await rows.put(*((kind, n, n) for kind in ("a", "ab") for n in range(50)))
        await server.upkeep.save_states()
        await rows.put(("a", 7), ("a", 50, 50))

    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        found = await rows.through(connection).by_prefix("a")

        expected = [("a", n, n) for n in range(51) if n != 7]
        assert sorted(found) == expected


async def test_numbers_go_on_after_a_restart_without_being_given_twice(tmp_path):
    columns = {"name": "STRING", "number": "BIGINT"}
    content = keyed_json(columns, key=["name"], numbered=["number"])
    given = []
    async with running(tmp_path) as server, connected(server) as connection:
        rows = await Rows.create(connection, content)
        given += await rows.get("a", "b", insert_if_not_exists=True)

    for names in (("c", "d"), ("e",)):
        async with running(tmp_path) as server, connected(server) as connection:
            given += await rows.through(connection).get(*names, insert_if_not_exists=True)

    numbers = [number for _, number in given]
    assert numbers == sorted(set(numbers))


# ---- retention of the log


async def with_expired_log(tmp_path, *, clock: FakeClock, storage: StorageSettings) -> Rows:
    """Fill a table, save its state, let its log expire, and stop."""
    given = {"clock": clock, "storage": storage}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, keyed_json(log_ttl="1h"))
        await change(rows, range(5))
        await server.upkeep.save_states()
        clock.milliseconds += 2 * HOUR_MS
        await server.upkeep.expire_rows()
    return rows


async def test_the_log_is_kept_as_long_as_a_rebuild_needs_it(tmp_path):
    clock = FakeClock()
    given = {"clock": clock, "storage": STORAGE}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, keyed_json(log_ttl="1h"))
        await change(rows, range(5))
        clock.milliseconds += 2 * HOUR_MS

        await server.upkeep.expire_rows()
        unsaved = await earliest(connection, rows.table_id)
        await server.upkeep.save_states()
        await rows.put((1_000, "x", 0))
        await server.upkeep.save_states()
        await server.upkeep.expire_rows()
        saved = await earliest(connection, rows.table_id)

        assert unsaved == 0
        assert saved > 500
        assert await rows.row_count() == 91


async def test_rows_whose_log_is_gone_come_from_their_snapshot(tmp_path):
    given = {"clock": FakeClock(), "storage": STORAGE}
    rows = await with_expired_log(tmp_path, **given)

    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = rows.through(connection)
        assert await earliest(connection, rows.table_id) > 500
        assert await rows.all() == kept(5)


async def test_rows_that_nothing_can_bring_back_are_not_taken_for_an_empty_table(tmp_path):
    given = {"clock": FakeClock(), "storage": STORAGE}
    rows = await with_expired_log(tmp_path, **given)
    shutil.rmtree(tmp_path / "log/1/0/kv")

    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = rows.through(connection)
        answers = await rows.send(rows.batch([(1, "x", 1)])), await rows.looked_up(rows.keys([1]))
        other = await create_table(connection)

        assert [answer.error_code for answer in answers] == [KV_STORAGE_ERROR] * 2
        assert other != rows.table_id


async def test_what_is_left_of_rows_that_are_lost_is_never_removed(tmp_path):
    given = {"clock": FakeClock(), "storage": STORAGE}
    rows = await with_expired_log(tmp_path, **given)
    before = [path.name for path in [*files(tmp_path, "segment"), *files(tmp_path, "snapshot")]]
    flip_bit(files(tmp_path, "segment")[0], 50)

    async with running(tmp_path, **given) as server, connected(server) as connection:
        answer = await rows.through(connection).looked_up(rows.keys([1]))

    after = [path.name.removesuffix(".damaged") for path in tmp_path.glob("log/1/0/kv/*")]
    assert answer.error_code == KV_STORAGE_ERROR
    assert sorted(after) == sorted(before)


@pytest.mark.parametrize("saves", [(), (4,)])
async def test_damage_in_the_log_costs_the_rows_only_if_no_snapshot_has_them(tmp_path, saves):
    rows = await stopped(tmp_path, saves=saves)
    victim = sorted(tmp_path.glob("log/1/0/*.log"))[2]
    flip_bit(victim, victim.stat().st_size // 2)

    async with running(tmp_path, storage=STORAGE) as server, connected(server) as connection:
        rows = rows.through(connection)
        found = await rows.looked_up(rows.keys([1]))
        start = await fetch(connection, rows.table_id, 0, 0)

        assert found.error_code == (0 if saves else KV_STORAGE_ERROR)
        assert start.records, "the log is read up to the damage"
        if saves:
            assert await rows.all() == kept(5)


# ---- rows that had their time


async def test_rows_expire_by_their_last_write_as_deletes_in_the_changelog(tmp_path):
    clock = FakeClock()
    given = {"clock": clock, "storage": STORAGE}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, keyed_json(kv_ttl="1h"))
        await rows.put((1, "old", 0), (2, "renewed", 0))
        clock.milliseconds += HOUR_MS * 3 // 4
        await rows.put((2, "renewed", 1), (3, "young", 0))
        clock.milliseconds += HOUR_MS // 2

        await server.upkeep.tend_states()

        assert await rows.all() == [(2, "renewed", 1), (3, "young", 0)]
        assert (await rows.changes())[-1] == (5, "-D", (1, "old", 0))


async def test_a_row_that_expired_stays_away_after_a_restart_and_can_be_written_again(tmp_path):
    clock = FakeClock()
    given = {"clock": clock, "storage": STORAGE}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, keyed_json(kv_ttl="1h"))
        await rows.put((1, "old", 0))
        clock.milliseconds += 2 * HOUR_MS
        await server.upkeep.tend_states()

    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = rows.through(connection)
        assert await rows.get(1) == [None]
        await rows.put((1, "new", 1))
        await server.upkeep.tend_states()
        assert await rows.get(1) == [(1, "new", 1)]


async def test_the_age_of_rows_is_known_after_a_restart_without_snapshot(tmp_path):
    clock = FakeClock()
    given = {"clock": clock, "storage": STORAGE}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, keyed_json(kv_ttl="1h"))
        await rows.put((1, "old", 0))
        clock.milliseconds += HOUR_MS // 2
        await rows.put((2, "young", 0))
    clock.milliseconds += HOUR_MS * 3 // 4

    given["trust_clock"] = True
    async with running(tmp_path, **given) as server, connected(server) as connection:
        await server.upkeep.tend_states()
        assert await rows.through(connection).all() == [(2, "young", 0)]


async def test_rows_expire_by_a_column_unless_it_is_null(tmp_path):
    clock = FakeClock()
    given = {"clock": clock, "storage": STORAGE}
    content = keyed_json(EVENTS, kv_ttl="1h", **{"kv_ttl_time-column": "at"})
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection, content)
        now_ms = clock.milliseconds
        young = (2, now_ms - HOUR_MS + 1)
        await rows.put((1, now_ms - HOUR_MS - 1), young, (3, None))

        await server.upkeep.tend_states()

        assert await rows.get(1, 2, 3) == [None, young, (3, None)]
        assert [kind for _, kind, _ in await rows.changes()] == ["+I", "+I", "+I", "-D"]


# ---- what is not durable


async def test_a_row_that_compaction_moved_is_still_not_shown_before_it_is_durable(tmp_path):
    syncs = HeldSyncs("1/0/0")
    storage = StorageSettings(kv=STORAGE.kv)
    given = {"storage": storage, "disk": disk_with(syncs, tmp_path)}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put((0, "x", 0))
        syncs.hold()
        await rows.put((1, "only once", 0), acks=0)
        for turn in range(10):
            await rows.put(*((n, "x" * 10, turn) for n in range(2, 100)), acks=0)
        tending = asyncio.ensure_future(server.upkeep.tend_states())
        reading = asyncio.ensure_future(rows.get(1))

        for _ in range(50):
            await rows.get(0)
        is_waiting = not reading.done() and not tending.done()
        syncs.release()

        await tending
        assert is_waiting
        assert await reading == [(1, "only once", 0)]
