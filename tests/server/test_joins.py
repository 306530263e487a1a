"""Logs that were written row by row, before and after the server has joined their batches."""

import shutil

import pyarrow as pa

from headwater import aio
from headwater.audit.files.walk import audit_files
from headwater.audit.report import Notes, no_watch
from headwater.audit.tables import audit_storage
from headwater.client.table import AsyncTable
from headwater.log.retention import LogSettings
from headwater.rows.log_batch import iterate
from headwater.server.tablets import StorageSettings
from tests.flows.appending import fetch
from tests.server.support import connected, running

COLUMNS = {"id": "BIGINT", "text": "STRING"}
ROWS = 60
STORAGE = StorageSettings(LogSettings(segment_bytes_max=8_000, index_interval_bytes=500))


async def everything(client, name: str) -> list[object]:
    """Return all that a reader can ask of a table: rows, changes, times, offsets of times."""
    table, log = await client.table(name), await client.table(f"{name}$changelog")
    changes = await log.scan().to_arrow()
    offsets = changes["_log_offset"].to_pylist()
    times = sorted(set(changes["_commit_timestamp"].to_pylist()))
    found: list[object] = [await table.scan().to_arrow(), changes]
    found += [await table.offsets(moment) for moment in times]
    for offset in offsets[:: len(offsets) // 7]:
        found.append(await log.scan(start={0: offset}, columns="_log_offset").to_arrow())
    found.append(await log.scan(columns="id", start={0: 3}, limit=5).to_arrow())
    return found


async def written(client, server) -> list[AsyncTable]:
    log = await client.create_table("log", COLUMNS, buckets=1)
    keyed = await client.create_table("keyed", COLUMNS, primary_key="id", buckets=1)
    for number in range(ROWS):
        await log.append({"id": number, "text": f"text {number}"})
        await keyed.upsert({"id": number % 10, "text": f"text {number}"})
        if number % 9 == 0:
            await keyed.delete({"id": number % 10})
    return [log, keyed]


async def join_all(server) -> int:
    """Join until nothing is left, and return how many batches there are."""
    tablets = [tablet for _, tablet in server._services.tablets.all_open()]
    for tablet in tablets:
        tablet.log.roll()
        tablet.log.checkpoint()
    for _ in range(10):
        await server.upkeep.join_batches()
    logs = [tablet.log for tablet in tablets]
    return sum(len(list(log.batches(0, up_to=log.end_offset))) for log in logs)


async def test_joining_changes_nothing_that_clients_see(tmp_path):
    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        tables = await written(client, server)
        before = [await everything(client, table.name) for table in tables]

        batches = await join_all(server)

        assert batches < 30
        assert [await everything(client, table.name) for table in tables] == before
        report = await audit_storage(client, deep=True)
        assert report.findings == ()
        await tables[0].append({"id": ROWS})
        assert await tables[0].count() == ROWS + 1
    notes = Notes(no_watch)
    audit_files(tmp_path / "data", notes, deep=True)
    assert notes.findings == ()


async def test_rows_by_key_are_rebuilt_from_a_joined_log(tmp_path):
    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        await written(client, server)
        await join_all(server)
        before = await everything(client, "keyed")
    for path in (tmp_path / "data" / "log").glob("*/*/kv"):
        shutil.rmtree(path)
    for path in (tmp_path / "data" / "log").glob("*/*/checkpoint"):
        path.unlink()

    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        after = await everything(client, "keyed")
        assert sorted(after[0].to_pylist(), key=str) == sorted(before[0].to_pylist(), key=str)
        assert after[1:] == before[1:]


async def test_clients_that_know_nothing_of_joined_batches_get_none(tmp_path):
    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
        connected(server) as stranger,
    ):
        table, _ = await written(client, server)
        log = await client.table("log$changelog")
        times = (await log.scan().to_arrow())["_commit_timestamp"].cast(pa.int64()).to_pylist()
        await join_all(server)

        for selection in ({}, {"projected_fields": [1]}):
            offset, seen, texts = 0, [], []
            schema = table.schema if not selection else pa.schema([table.schema.field("text")])
            while offset < ROWS:
                answer = await fetch(stranger, table.info.table_id, 0, offset, **selection)
                for header, at in iterate(answer.records):
                    assert not header.is_joined
                    assert header.base_offset <= offset < header.end_offset
                    message = answer.records[at + 48 : at + header.size]
                    rows = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
                    seen += [header.commit_timestamp] * header.record_count
                    texts += rows["text"].to_pylist()
                    offset = header.end_offset

            assert seen == times
            assert texts == [f"text {number}" for number in range(ROWS)]


async def test_nothing_is_joined_on_a_full_disk(tmp_path):
    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        await written(client, server)
        server._services.space._free_bytes_min = 1 << 62  # No disk is so large.

        assert await join_all(server) > ROWS
