"""Damage to one bucket: it is found, named and set aside, and the others go on."""

import pytest

from headwater.server.tablets import StorageSettings
from tests.flows.appending import fetch, table_json
from tests.server.support import (
    SMALL_SEGMENTS,
    FakeClock,
    HeldSyncs,
    append,
    connected,
    create_table,
    disk_with,
    error_at,
    fill,
    flip_bit,
    running,
    until,
)

DAMAGED = 10
BATCHES = 30


async def filled(directory):
    """Write two buckets of several segments each and stop."""
    async with (
        running(directory, storage=StorageSettings(SMALL_SEGMENTS)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection, table_json(buckets=2))
        for bucket in (0, 1):
            await fill(connection, table_id, bucket=bucket, batches=BATCHES)
    return table_id


def segments(directory, table_id, bucket=0):
    return sorted(directory.glob(f"log/{table_id}/{bucket}/*.log"))


def first_offset(segment):
    return int(segment.name.split(".")[0])


def again(directory):
    return running(directory, storage=StorageSettings(SMALL_SEGMENTS), clock=FakeClock())


def faults(server):
    return [
        fault for _, tablet in server._services.tablets.all_open() for fault in tablet.log.faults
    ]


def events_named(caplog, name):
    return [each.fields for each in caplog.records if each.message == name]


async def test_a_flipped_bit_in_a_sealed_segment_is_found_without_a_reader(tmp_path, caplog):
    table_id = await filled(tmp_path)
    victim = segments(tmp_path, table_id)[2]
    flip_bit(victim, victim.stat().st_size - 5)

    async with again(tmp_path) as server, connected(server) as connection:
        for _ in range(5):
            await server.upkeep.verify_data()

        assert not victim.exists()
        assert victim.with_name(victim.name + ".damaged").exists()
        # The server looks by itself, too: then the event comes from a thread of its own.
        await until(lambda: events_named(caplog, "segment set aside"))
        assert victim.name in events_named(caplog, "segment set aside")[0]["damage"]
        end = first_offset(segments(tmp_path, table_id)[2])
        code, message = await error_at(connection, table_id, end - 1)
        assert (code, victim.name in message) == (DAMAGED, True)
        assert (await error_at(connection, table_id, end))[0] == 0
        assert (await fetch(connection, table_id, 1, 0)).records
        assert (await append(connection, table_id)).base_offset == BATCHES * 10


async def test_a_bucket_that_cannot_be_read_does_not_keep_others_from_being_verified(
    tmp_path, caplog
):
    table_id = await filled(tmp_path)
    victim = segments(tmp_path, table_id, bucket=1)[1]
    flip_bit(victim, victim.stat().st_size - 5)

    async with again(tmp_path) as server:
        for unreadable in segments(tmp_path, table_id, bucket=0):
            unreadable.rename(unreadable.with_suffix(".hidden"))
            unreadable.mkdir()
        for _ in range(5):
            await server.upkeep.verify_data()

        assert victim.with_name(victim.name + ".damaged").exists()
        # Once by us, and perhaps once by the server itself at the same time.
        assert 1 <= len(events_named(caplog, "data not verified")) <= 2


@pytest.mark.parametrize("position", [5, 200, 1_000])
async def test_a_damaged_file_costs_only_its_own_rows(tmp_path, caplog, position):
    table_id = await filled(tmp_path)
    victim, following = segments(tmp_path, table_id)[1:3]
    flip_bit(victim, position)

    async with again(tmp_path) as server, connected(server) as connection:
        await until(lambda: faults(server))
        last = first_offset(following) - 1
        code, message = await error_at(connection, table_id, last)
        before = await error_at(connection, table_id, 0)
        behind = await error_at(connection, table_id, last + 1)
        other = await fetch(connection, table_id, 1, 0)

    assert (code, victim.name in message) == (DAMAGED, True), message
    assert (before[0], behind[0], other.error_code) == (0, 0, 0)
    assert str(last + 1) in message, "where to go on"
    assert events_named(caplog, "log damaged") or events_named(caplog, "segment set aside")


async def test_a_segment_that_is_gone_is_named_and_logged_at_the_start(tmp_path, caplog):
    table_id = await filled(tmp_path)
    victim = segments(tmp_path, table_id)[1]
    victim.unlink()

    async with again(tmp_path) as server, connected(server) as connection:
        code, message = await error_at(connection, table_id, first_offset(victim))
        other = await fetch(connection, table_id, 1, 0)

    (event,) = events_named(caplog, "log damaged")
    assert (code, victim.name in message) == (DAMAGED, True)
    assert (event["bucket"], victim.name in event["fault"]) == (f"table {table_id} bucket 0", True)
    assert not other.error_code


async def test_a_bucket_whose_directory_cannot_be_opened_fails_alone(tmp_path, caplog):
    table_id = await filled(tmp_path)
    directory = tmp_path / "log" / str(table_id) / "0"
    directory.rename(directory.with_name("away"))
    directory.mkdir()
    (directory / f"{0:020d}.log").mkdir()

    async with again(tmp_path) as server, connected(server) as connection:
        code, _ = await error_at(connection, table_id, 0)
        other = await fetch(connection, table_id, 1, 0)

    assert code == DAMAGED
    assert not other.error_code
    assert (
        events_named(caplog, "bucket cannot be opened")[0]["bucket"] == f"table {table_id} bucket 0"
    )


async def test_a_bucket_whose_sync_fails_acks_nothing_more_while_others_go_on(tmp_path, caplog):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection, table_json(buckets=2))
        for bucket in (0, 1):
            await append(connection, table_id, bucket=bucket)
        syncs.is_failing = True

        failed = await append(connection, table_id)
        syncs.is_failing = False
        after = await append(connection, table_id)
        other = await append(connection, table_id, bucket=1)

        assert (failed.error_code, after.error_code, other.error_code) == (DAMAGED, DAMAGED, 0)
        assert "restart" in after.error_message
        assert (await fetch(connection, table_id, 0, 0)).high_watermark == 10
        assert events_named(caplog, "log fenced")


async def test_a_bucket_whose_sync_failed_takes_rows_again_after_a_restart(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await append(connection, table_id)
        syncs.is_failing = True
        await append(connection, table_id)

    async with running(tmp_path) as server, connected(server) as connection:
        assert not (await append(connection, table_id)).error_code
        assert (await fetch(connection, table_id, 0, 0)).high_watermark >= 20
