"""A server and its remote storage: when it is away, behind, or belongs to somebody else."""

import shutil
from contextlib import asynccontextmanager

import pytest

from headwater.client.client import connect
from headwater.config.client import ACKS_REMOTE, ClientSettings
from headwater.errors import HeadwaterError, InvalidAcksError, RemoteTakenError, RetryLaterError
from headwater.log.retention import LogSettings
from headwater.remote.history import whole_tree
from headwater.remote.objects import DirectoryObjects
from headwater.remote.proof import prove
from headwater.remote.restore import restore
from headwater.server.remote import copy as remote_copy
from headwater.server.tablets import StorageSettings
from tests.server.support import running, until

COLUMNS = {"id": "BIGINT", "name": "STRING"}
SMALL = StorageSettings(log=LogSettings(segment_bytes_max=20_000, join_gain_min=1))


@pytest.fixture
def remote(tmp_path):
    return tmp_path / "remote"


def shipped_to(directory, remote, **given):
    fast = {"remote_data_dir": str(remote), "remote_sync_interval_s": 0.05}
    return running(directory, **fast, **given)


@asynccontextmanager
async def table_on(server, *, key=(), acks=-1, **settings):
    wanted = ClientSettings(acks=acks, **settings)
    async with await connect(f"127.0.0.1:{server.port}", settings=wanted) as client:
        if not await client.table_exists("t"):
            await client.create_table("t", COLUMNS, primary_key=key, buckets=1)
        yield await client.table("t")


async def ids_on(server) -> list[int]:
    async with table_on(server) as table:
        return sorted((await table.scan().to_arrow()).column("id").to_pylist())


def rows(*ids: int) -> list[dict[str, object]]:
    return [{"id": number, "name": f"row {number}"} for number in ids]


def brought_back(remote, directory):
    return restore(DirectoryObjects(remote), directory, sleep=lambda _: None)


async def test_a_server_starts_without_its_remote_storage_and_takes_it_later(
    tmp_path, remote, monkeypatch
):
    monkeypatch.setattr(remote_copy, "CLAIM_S_MAX", 0.1)
    monkeypatch.setattr(remote_copy, "CLAIM_AGAIN_S", 0.05)
    remote.write_text("in the way")
    async with shipped_to(tmp_path / "data", remote) as server:
        async with table_on(server) as table:
            await table.append(rows(1, 2))
        assert server._services.remote.epoch == 0

        remote.unlink()
        await until(lambda: server._services.remote.epoch == 1)

    assert brought_back(remote, tmp_path / "back").rows == 2


async def test_writes_wait_while_the_remote_storage_is_further_behind_than_it_may_be(
    tmp_path, remote, monkeypatch
):
    monkeypatch.setattr(remote_copy, "CLAIM_S_MAX", 0.1)
    monkeypatch.setattr(remote_copy, "CLAIM_AGAIN_S", 0.05)
    remote.write_text("in the way")
    async with (
        shipped_to(tmp_path / "data", remote, remote_lag_s_max=1) as server,
        table_on(server, deadline_s=0.5) as table,
    ):
        await until(lambda: server._services.remote.behind_s > 1)
        with pytest.raises(RetryLaterError, match="remote copy is 1 s behind"):
            await table.append(rows(1))

        remote.unlink()
        await until(lambda: server._services.remote.behind_s == 0)
        await table.append(rows(2))

        assert await ids_on(server) == [2]


async def test_answers_from_remote_storage_are_refused_where_there_is_none(tmp_path):
    async with running(tmp_path) as server, table_on(server, acks=ACKS_REMOTE) as table:
        with pytest.raises(InvalidAcksError, match="no remote storage"):
            await table.append(rows(1))

        assert await ids_on(server) == []


@pytest.mark.parametrize("key", [(), "id"], ids=["log", "keyed"])
async def test_an_answer_comes_once_the_rows_are_in_remote_storage(tmp_path, remote, key):
    async with (
        shipped_to(tmp_path / "data", remote) as server,
        table_on(server, key=key, acks=ACKS_REMOTE) as table,
    ):
        for number in range(5):
            await (table.upsert if key else table.append)(rows(number))

            assert whole_tree(DirectoryObjects(remote)).rows == number + 1


async def test_an_older_copy_of_the_directory_does_not_take_the_remote_storage(tmp_path, remote):
    async with shipped_to(tmp_path / "data", remote) as server, table_on(server) as table:
        await table.append(rows(1))
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
        await table.append(rows(2))
    with pytest.raises(RemoteTakenError, match="such as rows of table 1 bucket 0"):
        async with shipped_to(tmp_path / "copy", remote):
            pass
    async with shipped_to(tmp_path / "data", remote):
        pass

    with pytest.raises(RemoteTakenError, match="the original of this copy"):
        async with shipped_to(tmp_path / "copy", remote):
            pass

    async with shipped_to(tmp_path / "data", remote) as server:
        assert await ids_on(server) == [1, 2]


async def test_another_storage_does_not_take_the_remote_storage(tmp_path, remote):
    async with shipped_to(tmp_path / "data", remote):
        pass

    with pytest.raises(RemoteTakenError, match="another storage"):
        async with shipped_to(tmp_path / "other", remote):
            pass


async def test_what_was_dropped_is_not_restored(tmp_path, remote):
    async with shipped_to(tmp_path / "data", remote) as server:
        async with table_on(server) as table:
            await table.append(rows(1))
        async with await connect(f"127.0.0.1:{server.port}") as client:
            await client.drop_table("t")

    assert brought_back(remote, tmp_path / "back").file_count == 1
    async with running(tmp_path / "back") as server:
        assert await ids_on(server) == []


async def test_segments_that_are_sealed_joined_and_expired_meanwhile_are_restored_as_they_are(
    tmp_path, remote
):
    async with shipped_to(tmp_path / "data", remote, storage=SMALL) as server:
        async with table_on(server) as table:
            for number in range(600):
                await table.append(rows(number))
                if number % 20 == 19:
                    await server.upkeep.join_batches()
            ((_, tablet),) = server.tablets.all_open()
            await tablet.expire(
                ttl_ms=None, bytes_max=10_000, now_ms=0, kept_from=None, delete_delay_ms=0
            )
            stored = tablet.log.batches(tablet.start_offset, up_to=tablet.high_watermark)
            assert len(list(stored)) < (tablet.high_watermark - tablet.start_offset) / 2
        held = await ids_on(server)

    assert prove(DirectoryObjects(remote)).findings == ()
    brought_back(remote, tmp_path / "back")
    assert 100 < len(held) < 600
    async with running(tmp_path / "back", storage=SMALL) as server:
        assert await ids_on(server) == held
        ((_, tablet),) = server.tablets.all_open()
        assert (*tablet.log.faults, *tablet.log.repairs) == ()


class EndingObjects(DirectoryObjects):
    """Ends after a few pieces, as a process that is killed does."""

    pieces = 0

    def read(self, key, *, start=0, length=None):
        self.pieces += start > 0
        if self.pieces > 3:
            raise KeyboardInterrupt
        return super().read(key, start=start, length=length)


async def test_a_restore_that_was_interrupted_fetches_only_the_rest(tmp_path, remote):
    async with (
        shipped_to(tmp_path / "data", remote) as server,
        table_on(server, acks=ACKS_REMOTE) as table,
    ):
        for number in range(10):
            await table.append(rows(number))
    with pytest.raises(KeyboardInterrupt):
        restore(EndingObjects(remote), tmp_path / "back", sleep=lambda _: None)
    assert not (tmp_path / "back").exists()

    report = brought_back(remote, tmp_path / "back")

    assert 0 < report.fetched_bytes < report.byte_count
    async with running(tmp_path / "back") as server:
        assert await ids_on(server) == list(range(10))


async def test_a_changed_byte_in_the_remote_storage_is_found_and_not_restored(tmp_path, remote):
    async with shipped_to(tmp_path / "data", remote) as server, table_on(server) as table:
        await table.append(rows(*range(100)))
    largest = max((remote / "commits").iterdir(), key=lambda each: each.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-20] ^= 1
    largest.write_bytes(content)

    assert any("checksum" in each for each in prove(DirectoryObjects(remote)).findings)
    with pytest.raises(HeadwaterError, match="checksum does not match"):
        brought_back(remote, tmp_path / "back")
    assert not (tmp_path / "back").exists()
