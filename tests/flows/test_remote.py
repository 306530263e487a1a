"""A machine is lost under load and its storage goes on elsewhere, from the remote storage."""

import asyncio
import shutil
import time
from pathlib import Path

import pytest

import headwater
from headwater.client.client import connect
from headwater.config.client import ACKS_REMOTE, ClientSettings
from headwater.errors import HeadwaterError
from headwater.remote.history import whole_tree
from headwater.remote.objects import DirectoryObjects
from headwater.remote.restore import restore
from tests.figures import times
from tests.serving import ServerProcess

ROUNDS = 2
ROUNDS_TORTURE = times(50)
WITHIN_S = 30
FAST = ("--remote-interval", "100 ms")
EXIT_LOST = 9
TABLES = {"rows": (), "stock": "id"}


class RemoteWriter:
    """Writes rows and notes those that were answered for when they were in remote storage."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.sent = self.acked = 0
        self.offsets: dict[int, int] = {}

    async def write_until_cut(self, port: int) -> None:
        settings = ClientSettings(acks=ACKS_REMOTE, deadline_s=2.0, request_timeout_s=2.0)
        try:
            async with await connect(f"127.0.0.1:{port}", settings=settings) as client:
                table = await client.table(self.table)
                write = table.upsert if TABLES[self.table] else table.append
                while True:
                    row, self.sent = self.sent, self.sent + 1
                    await write({"id": row, "name": f"row {row}"})
                    self.acked = self.sent
        except (HeadwaterError, OSError):
            return

    async def acked_more(self, count: int) -> None:
        wanted, until = self.acked + count, time.monotonic() + WITHIN_S
        while self.acked < wanted:
            assert time.monotonic() < until
            await asyncio.sleep(0.01)


async def with_tables(port: int) -> None:
    async with await connect(f"127.0.0.1:{port}") as client:
        for name, key in TABLES.items():
            columns = {"id": "BIGINT", "name": "STRING"}
            await client.create_table(name, columns, primary_key=key, buckets=1)


async def rows_of(port: int, table: str) -> list[int]:
    async with await connect(f"127.0.0.1:{port}") as client:
        found = await (await client.table(table)).scan().to_arrow()
        return sorted(found.column("id").to_pylist())


async def lose_machines(place: Path, rounds: int) -> None:
    """Kill a server under load, delete its directory, and go on from the remote storage."""
    remote = place / "remote"
    options = ("--remote", str(remote), *FAST)
    server = ServerProcess(place / "data-0", *options)
    await with_tables(server.port)
    for number in range(1, rounds + 1):
        writers = [RemoteWriter(each) for each in TABLES]
        for each in writers:
            each.sent = each.acked = 1_000_000 * number
        writing = [asyncio.ensure_future(each.write_until_cut(server.port)) for each in writers]
        await asyncio.gather(*(each.acked_more(5) for each in writers))
        await asyncio.to_thread(server.kill)
        await asyncio.gather(*writing)
        promised = whole_tree(DirectoryObjects(remote)).rows
        shutil.rmtree(place / f"data-{number - 1}")

        server = ServerProcess(place / f"data-{number}", "--restore-from", str(remote), *options)

        total = 0
        for each in writers:
            rows = await rows_of(server.port, each.table)
            total += len(rows)
            new = [row for row in rows if row >= 1_000_000 * number]
            acked = range(1_000_000 * number, each.acked)
            assert len(rows) == len(set(rows)), "a row is there twice"
            assert set(acked) <= set(new), "a row that was answered for is missing"
            assert set(new) <= set(range(1_000_000 * number, each.sent)), "nobody sent that row"
        assert total == promised
    assert server.stop() == 0


async def test_what_was_in_remote_storage_survives_the_loss_of_the_machine(tmp_path):
    await lose_machines(tmp_path, ROUNDS)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_what_was_in_remote_storage_survives_the_loss_of_fifty_machines(tmp_path):
    await lose_machines(tmp_path, ROUNDS_TORTURE)


async def test_a_server_whose_remote_storage_was_taken_over_writes_nothing_more(tmp_path):
    remote = tmp_path / "remote"
    options = ("--remote", str(remote), *FAST)
    old = ServerProcess(tmp_path / "old", *options)
    await with_tables(old.port)
    writer = RemoteWriter("rows")
    writing = asyncio.ensure_future(writer.write_until_cut(old.port))
    await writer.acked_more(3)

    new = ServerProcess(tmp_path / "new", "--restore-from", str(remote), *options)

    await writing
    assert await asyncio.to_thread(old.wait, WITHIN_S) == EXIT_LOST
    assert "Another server took over" in old.log.read_text() or "another server" in (
        old.log.read_text()
    )
    assert set(range(writer.acked)) <= set(await rows_of(new.port, "rows"))
    with pytest.raises(RuntimeError, match="took over"):
        ServerProcess(tmp_path / "old", *options)
    assert new.stop() == 0


def test_a_storage_in_this_process_is_shipped_and_restored(tmp_path):
    with headwater.open(tmp_path / "data", remote=str(tmp_path / "remote")) as storage:
        table = storage.create_table("rows", {"id": "BIGINT"})
        table.append([{"id": number} for number in range(1000)])

    report = restore(DirectoryObjects(tmp_path / "remote"), tmp_path / "back", sleep=lambda _: None)

    assert report.is_last
    with headwater.open(tmp_path / "back") as storage:
        assert storage.table("rows").scan().to_arrow().num_rows == 1000
