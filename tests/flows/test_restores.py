"""An older copy of a storage in its place, while clients of the newer one go on."""

from contextlib import AsyncExitStack

import pyarrow as pa
import pytest

from headwater.cluster.links import TcpConnection
from headwater.epochs.lane_sender import LaneSender
from headwater.epochs.ledger import LaneKey, SinkLedger
from headwater.errors import (
    EpochDiffersError,
    LakeAheadError,
    LogDivergedError,
    PartitionMissingError,
    SequenceError,
    TableMissingError,
    UnknownWriterError,
    error_of_code,
)
from headwater.lake.lakes import Lakes
from headwater.model.bucket import TableBucket
from headwater.server.logins import Users
from headwater.tiering.plan import Limits, TieringSettings
from headwater.tiering.round import tier_round
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from headwater.wire import fluss_pb2 as pb
from headwater.write.encode import LogLane, LogRows
from tests.flows.appending import batch_of, produce, with_table
from tests.flows.restoring import restorable
from tests.lake.formats import config_of, opened

ROWS = {"id": "BIGINT", "name": "STRING"}


def row(number: int, who: str) -> dict[str, object]:
    return {"id": number, "name": who}


async def scanned(table) -> list[tuple[int, str]]:
    rows = (await table.scan().to_arrow()).to_pylist()
    return sorted((each["id"], each["name"]) for each in rows)


@pytest.mark.parametrize("key", [(), "id"], ids=["appends", "upserts"])
async def test_every_row_that_is_answered_for_after_a_restore_is_stored(tmp_path, key):
    async with restorable(tmp_path / "data") as storage, AsyncExitStack() as held:
        maker = await storage.client()
        held.push_async_callback(maker.close)
        await maker.create_table("t", ROWS, primary_key=key, buckets=1)
        copy = await storage.copy()
        old = await storage.client()
        held.push_async_callback(old.close)
        first = await old.table("t")
        await write(first, [row(0, "lost")])

        await storage.restore(copy)
        new = await storage.client()
        held.push_async_callback(new.close)
        second, acked = await new.table("t"), []
        for number in range(1, 17):
            for table, who in ((first, "old"), (second, "new")):
                rows = [row(100 * number + (who == "old"), who)]
                await write(table, rows)
                acked += [(each["id"], each["name"]) for each in rows]

        assert await scanned(second) == sorted(acked)


async def produced(connection, table_id, records) -> None:
    answer = await connection.call(produce(table_id, 0, records), pb.ProduceLogResponse)
    (bucket,) = answer.buckets_resp
    if bucket.error_code:
        raise error_of_code(bucket.error_code, bucket.error_message)


def sequencer_of(table):
    """Return who numbers the batches of a table with one bucket."""
    (queue,) = table._writers._queues.values()
    return queue._sequencer


async def write(table, rows) -> None:
    await (table.upsert(rows) if table.info.is_keyed else table.append(rows))


async def test_other_rows_under_a_used_number_are_refused_by_key_also_after_a_restart(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        client = await storage.client()
        table = await client.create_table("t", ROWS, primary_key="id", buckets=1)
        await table.upsert([row(1, "a")])
        await table.upsert([row(1, "a")])  # changes nothing, and takes a number all the same
        sequencer = sequencer_of(table)
        for _ in range(2):
            for sequence, who in ((0, "b"), (1, "c")):
                sequencer._sequence = sequence
                before = sequencer.writer_id
                await table.upsert([row(1, who)])
                # Refused, and sent again under another id: stored, not taken for a repetition.
                assert sequencer.writer_id != before
                assert (await table.get({"id": 1}))["name"] == who
                await table.upsert([row(1, f"{who}2")])
            await storage.restart()
            await table.upsert([row(2, "after")])
        await client.close()


async def test_nobody_writes_with_the_id_of_another_user(tmp_path):
    users = Users({}).with_user("ann", "ann").with_user("eve", "eve")
    async with restorable(tmp_path / "data", users=users) as storage:
        ann = await storage.client("ann")
        table = await ann.create_table("t", ROWS, buckets=1)
        await table.append([row(1, "ann")])
        mine = sequencer_of(table)
        taken = mine.writer_id
        eve = await storage.client("eve")
        theirs = await eve.table("t")
        await theirs.append([row(2, "eve")])
        spoofing = sequencer_of(theirs)

        for turn in range(2):
            spoofing._writer_id, spoofing._sequence = taken, 1
            await theirs.append([row(30 + turn, "eve")])
            await table.append([row(4, "ann")])
            assert mine.writer_id == taken
            assert spoofing.writer_id != taken
            await storage.restart()
            await table.append([row(5, "ann")])

        found = [name for _, name in await scanned(table)]
        assert (found.count("ann"), found.count("eve")) == (5, 3)
        await ann.close()
        await eve.close()


async def test_nobody_writes_to_the_lane_of_a_sink_of_another_user(tmp_path):
    users = Users({}).with_user("ann", "ann").with_user("eve", "eve")
    async with restorable(tmp_path / "data", users=users) as storage:
        ann = await storage.client("ann")
        table = await ann.create_table("t", ROWS, buckets=1)
        await table.write_epoch([row(1, "ann")], sink="s", epoch=0)
        await storage.restart()
        key = LaneKey("s", TableBucket(table.info.table_id, 0, None), 0)

        connection = await TcpConnection.open(
            "127.0.0.1", storage.server.port, credentials=("eve", "eve")
        )
        message = pa.RecordBatch.from_pylist([row(9, "eve")], schema=table.schema)
        payload = LogLane(table.info).payload([LogRows.of(message)])
        records = payload.records(writer_id=key.writer_id(0), sequence=1)
        with pytest.raises(UnknownWriterError, match="another user"):
            await produced(connection, table.info.table_id, records)
        await table.write_epoch([row(2, "ann")], sink="s", epoch=1)

        assert await scanned(table) == [(1, "ann"), (2, "ann")]
        await connection.close()
        await ann.close()


async def test_official_clients_are_told_to_take_another_id(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        table_id = await with_table(storage.server.port)
        copy = await storage.copy()
        client = await storage.client()
        writers = (await client.table("rows"))._writers
        given = await writers.ids.get(TableBucket(table_id, 0, None), used=None)
        await storage.restore(copy)

        connection = await TcpConnection.open("127.0.0.1", storage.server.port)
        with pytest.raises(SequenceError) as refused:
            await produced(connection, table_id, batch_of([(1, 1)], writer_id=given, sequence=0))

        assert refused.value.code == UnknownWriterError.code
        await connection.close()
        await client.close()


# ---- tables and partitions that have others in their place


@pytest.mark.parametrize("key", [(), "id"], ids=["log", "keyed"])
async def test_rows_for_a_lost_table_are_not_written_to_another_of_its_name(tmp_path, key):
    """The other one has the same columns, and is made by the first change after the restore."""
    async with restorable(tmp_path / "data") as storage, AsyncExitStack() as held:
        client, other = await storage.client(), await storage.client()
        for each in (client, other):
            held.push_async_callback(each.close)
        copy = await storage.copy()
        lost = await client.create_table("t", ROWS, primary_key=key, buckets=1)
        await write(lost, [row(1, "lost")])
        tail = await lost.tail("earliest")
        await read(tail, 1)
        await storage.restore(copy)
        made = await other.create_table("t", ROWS, primary_key=key, buckets=1)
        await write(made, [row(2, "made"), row(3, "made")])

        with pytest.raises(TableMissingError):
            await write(lost, [row(4, "late")])
        with pytest.raises(TableMissingError):
            await scanned(lost)
        with pytest.raises(TableMissingError):
            await read(tail, 1)
        await tail.close()

        assert await scanned(made) == [(2, "made"), (3, "made")]
        assert await scanned(await client.table("t")) == [(2, "made"), (3, "made")]


async def test_rows_for_a_table_that_came_after_it_are_not_written_to_a_restored_one(tmp_path):
    async with restorable(tmp_path / "data") as storage, AsyncExitStack() as held:
        client = await storage.client()
        held.push_async_callback(client.close)
        first = await client.create_table("t", ROWS, buckets=1)
        await first.append([row(1, "kept")])
        copy = await storage.copy()
        await client.drop_table("t")
        second = await client.create_table("t", ROWS, buckets=1)
        await second.append([row(2, "lost")])
        await storage.restore(copy)

        with pytest.raises(TableMissingError):
            await second.append([row(3, "late")])
        await first.append([row(4, "kept")])

        assert await scanned(first) == [(1, "kept"), (4, "kept")]


async def test_rows_for_a_lost_partition_are_not_written_to_another(tmp_path):
    parted = {"id": "BIGINT", "name": "STRING"}
    async with restorable(tmp_path / "data") as storage, AsyncExitStack() as held:
        client, other = await storage.client(), await storage.client()
        for each in (client, other):
            held.push_async_callback(each.close)
        table = await client.create_table("t", parted, partition_by="name", buckets=1)
        copy = await storage.copy()
        await table.append([row(1, "lost")])
        await storage.restore(copy)
        # Takes the id that the lost partition had, if ids repeat.
        await (await other.table("t")).append([row(2, "other")])
        with pytest.raises(PartitionMissingError):
            await table.append([row(3, "lost")])
        await table.append([row(3, "lost")])
        await table.append([row(4, "other")])

        assert await scanned(table) == [(2, "other"), (3, "lost"), (4, "other")]
        for name, ids in (("lost", [3]), ("other", [2, 4])):
            found = await table.scan(where=[("name", "=", name)]).to_arrow()
            assert sorted(found.column("id").to_pylist()) == ids


# ---- what others remember of the storage


async def grown(storage, *, before=10, lost=10, after=30, **table):
    """Return a table whose rows 0 to 9 are in a copy; others were lost, and others came then."""
    client = await storage.client()
    made = await client.create_table("t", ROWS, buckets=1, **table)
    await write(made, [row(number, "before") for number in range(before)])
    async with made.cursor("c", start="earliest"):
        pass  # So that the storage has cursors before it is copied.
    copy = await storage.copy()
    await write(made, [row(number + 100, "lost") for number in range(lost)])

    async def restore() -> None:
        await storage.restore(copy)
        await write(made, [row(number + 200, "after") for number in range(after)])

    return client, made, restore


async def read(tail, count) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        for batch in await tail.poll(5.0):
            found += batch.rows.column("name").to_pylist()
    return found


async def test_a_tail_is_told_that_the_log_is_another(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        client, table, restore = await grown(storage)
        ahead, behind = await table.tail("earliest"), await table.tail("earliest")
        await read(ahead, 20)
        await read(behind, 10)
        slow = await table.tail({0: 10})
        await restore()

        with pytest.raises(LogDivergedError):
            await read(ahead, 1)
        assert set(await read(slow, 30)) == {"after"}
        for each in (ahead, behind, slow):
            await each.close()
        await client.close()


async def test_a_cursor_commits_nothing_that_the_storage_lost_and_misses_nothing(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        client, table, restore = await grown(storage)
        async with table.cursor("c", start="earliest", auto_commit=False) as cursor:
            found = await read(cursor, 20)
            assert found.count("lost") == 10
            await restore()
            with pytest.raises(LogDivergedError):
                await cursor.commit()
            with pytest.raises(LogDivergedError):
                await read(cursor, 1)

        async with table.cursor("c", start="earliest") as again:
            found = await read(again, 40)

        assert (found.count("before"), found.count("after")) == (10, 30)
        await client.close()


async def test_an_epoch_is_finished_only_where_its_rows_are(tmp_path, monkeypatch):
    ledger_write = SinkLedger.write
    for key in ((), "id"):
        async with restorable(tmp_path / f"data-{key}") as storage:
            client = await storage.client()
            table = await client.create_table("t", ROWS, primary_key=key, buckets=1)
            await table.write_epoch([row(1, "a")], sink="s", epoch=0)
            copy = await storage.copy()

            async def restored_first(self, standings, *, only_if=(), storage=storage, copy=copy):
                if any(each.epoch >= 1 for each in standings.values()):
                    monkeypatch.setattr(SinkLedger, "write", ledger_write)
                    await storage.restore(copy)
                await ledger_write(self, standings, only_if=only_if)

            monkeypatch.setattr(SinkLedger, "write", restored_first)
            with pytest.raises(LogDivergedError):
                await table.write_epoch([row(2, "b")], sink="s", epoch=1)
            await table.write_epoch([row(2, "b")], sink="s", epoch=1)
            await table.write_epoch([row(2, "b")], sink="s", epoch=1)

            assert await scanned(table) == [(1, "a"), (2, "b")]
            await client.close()


@pytest.mark.parametrize("key", [(), "id"], ids=["log", "keyed"])
async def test_a_part_of_an_epoch_in_a_copy_is_not_taken_for_a_later_one(
    tmp_path, monkeypatch, key
):
    async with restorable(tmp_path / "data") as storage:
        client, other = await storage.client(), await storage.client()
        table = await client.create_table("t", ROWS, primary_key=key, buckets=1)
        await table.write_epoch([row(0, "e")], sink="s", epoch=0)
        with monkeypatch.context() as patched:
            patched.setattr(SinkLedger, "write", interrupted)
            with pytest.raises(InterruptedError):
                await table.write_epoch([row(1, "part")], sink="s", epoch=1)
        copy = await storage.copy()
        for epoch in (1, 2, 3):
            rows = [row(1, "part")] if epoch == 1 else [row(epoch, "e")]
            await table.write_epoch(rows, sink="s", epoch=epoch)
        await storage.restore(copy)

        with monkeypatch.context() as patched:
            patched.setattr(LaneSender, "send", interrupted_sending)
            with pytest.raises(InterruptedError):
                await table.write_epoch([row(4, "e")], sink="s", epoch=4)
        await storage.restore(copy)
        for epoch in (4, 4, 5):
            await table.write_epoch([row(epoch, "e")], sink="s", epoch=epoch)
        await (await other.table("t")).write_epoch([row(5, "e")], sink="s", epoch=5)

        assert await scanned(table) == [(0, "e"), (1, "part"), (4, "e"), (5, "e")]
        await client.close()
        await other.close()


@pytest.mark.parametrize("key", [(), "id"], ids=["log", "keyed"])
@pytest.mark.parametrize("begun", [0, 1, 3], ids=["first", "next", "later"])
async def test_another_process_goes_on_behind_a_part_of_a_lost_epoch(
    tmp_path, monkeypatch, key, begun
):
    """It remembers nothing of the storage; that epoch 4 was not begun is in the ledger."""
    async with restorable(tmp_path / "data") as storage:
        client, other = await storage.client(), await storage.client()
        table = await client.create_table("t", ROWS, primary_key=key, buckets=1)
        if begun:
            await table.write_epoch([row(0, "e")], sink="s", epoch=0)
        with monkeypatch.context() as patched:
            patched.setattr(SinkLedger, "write", noting_no_epoch)
            with pytest.raises(InterruptedError):
                await table.write_epoch([row(1, "part")], sink="s", epoch=begun)
        copy = await storage.copy()
        for rows in ([row(4, "e")], [row(1, "part")]):
            await storage.restore(copy)
            with monkeypatch.context() as patched:
                patched.setattr(SinkLedger, "write", noting_no_epoch)
                with pytest.raises(InterruptedError):
                    await (await other.table("t")).write_epoch(rows, sink="s", epoch=4)
            late = await other.table("t")
            for epoch in (4, 4, 5):
                await late.write_epoch(rows if epoch == 4 else [row(5, "e")], sink="s", epoch=epoch)

            found = await names_logged(table)
            expected = ["e"] * bool(begun) + ["part", rows[0]["name"], "e"]
            if key and rows[0]["name"] == "part":
                expected.pop(-2)  # Upserting the same row again changes nothing.
            assert found == expected
        await client.close()
        await other.close()


@pytest.mark.parametrize("key", [(), "id"], ids=["log", "keyed"])
async def test_where_an_earlier_version_began_a_lost_epoch_others_are_told_what_to_do(
    tmp_path, monkeypatch, key
):
    async with restorable(tmp_path / "data") as storage:
        client = await storage.client()
        table = await client.create_table("t", ROWS, primary_key=key, buckets=1)
        with monkeypatch.context() as patched:
            patched.setattr(SinkLedger, "write", as_earlier_versions)
            await table.write_epoch([row(0, "e")], sink="s", epoch=0)
            patched.setattr(SinkLedger, "write", interrupted)
            with pytest.raises(InterruptedError):
                await table.write_epoch([row(1, "part")], sink="s", epoch=1)
        await storage.restart()  # as a copy would be started

        with pytest.raises(EpochDiffersError, match=r"restored.*under another sink"):
            await table.write_epoch([row(4, "e")], sink="s", epoch=4)
        await table.write_epoch([row(4, "e")], sink="s2", epoch=4)
        await table.write_epoch([row(1, "part")], sink="s", epoch=4)
        await table.write_epoch([row(6, "e")], sink="s", epoch=6)

        expected = [(0, "e"), (1, "part"), (4, "e"), (6, "e")]
        assert await scanned(table) == expected
        await client.close()


async def as_earlier_versions(self, standings, *, only_if=(), write=SinkLedger.write) -> None:
    lanes = {key: each for key, each in standings.items() if key.lane >= 0}
    await write(self, lanes, only_if=only_if)


async def names_logged(table) -> list[str]:
    """Return the names in the log of a table, in its order, as they were first written."""
    found = await table.scan(mode="log").to_arrow()
    return found.column("name").to_pylist()


async def noting_no_epoch(self, standings, *, only_if=(), write=SinkLedger.write) -> None:
    """Note that lanes and epochs begin, and be interrupted before one is finished."""
    if any(key.lane >= 0 and each.epoch >= 0 for key, each in standings.items()):
        raise InterruptedError
    await write(self, standings, only_if=only_if)


async def interrupted(self, standings, *, only_if=()) -> None:
    raise InterruptedError


async def interrupted_sending(self, batches) -> None:
    raise InterruptedError


async def test_a_checkpoint_of_an_engine_that_is_ahead_of_the_storage_goes_on_behind_it(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        client = await storage.client()
        table = await client.create_table("t", ROWS, buckets=1)
        copy = None
        for epoch in range(6):
            await table.write_epoch([row(epoch, "e")], sink="s", epoch=epoch)
            copy = copy or await storage.copy()
        await storage.restore(copy)

        for epoch in (6, 7, 7):
            await table.write_epoch([row(epoch, "e")], sink="s", epoch=epoch)

        assert [number for number, _ in await scanned(table)] == [0, 6, 7]
        await client.close()


async def test_a_token_of_rows_that_are_lost_is_refused_and_others_are_read(tmp_path):
    async with restorable(tmp_path / "data") as storage:
        client = await storage.client()
        table = await client.create_table("t", ROWS, buckets=1)
        await table.append([row(1, "before")])
        kept = (await table.view()).token()
        copy = await storage.copy()
        await table.append([row(2, "lost")])
        lost = (await table.view()).token()
        await storage.restore(copy)
        await table.append([row(3, "after"), row(4, "after")])

        with pytest.raises(LogDivergedError, match="no longer holds"):
            await table.view(token=lost)
        view = await table.view(token=kept)

        assert (await view.scan().to_arrow()).column("name").to_pylist() == ["before"]
        await client.close()


async def test_numbers_of_rows_are_not_given_twice_to_rows_that_are_there(tmp_path):
    numbered = {"name": "STRING", "id": "BIGINT"}
    async with restorable(tmp_path / "data") as storage:
        client = await storage.client()
        table = await client.create_table(
            "t", numbered, primary_key="name", auto_increment="id", buckets=1
        )
        await table.upsert([{"name": f"a{each}"} for each in range(5)], columns=["name"])
        copy = await storage.copy()
        await table.upsert([{"name": f"b{each}"} for each in range(5)], columns=["name"])
        await storage.restore(copy)
        await table.upsert([{"name": f"c{each}"} for each in range(5)], columns=["name"])

        numbers = (await table.scan().to_arrow()).column("id").to_pylist()

        assert len(set(numbers)) == 10
        await client.close()


async def tiered(client, table, lakes):
    service = TieringService(client, LocalRunner(client), settings=TieringSettings(), lakes=lakes)
    turn = await service._next([table.path], ignore_freshness=True)
    limits = Limits(rows_max=1000)
    return await tier_round(
        turn, client=client, runner=LocalRunner(client), lakes=lakes, limits=limits
    )


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
async def test_a_lake_ahead_of_a_restored_storage_is_not_gone_on_with(tmp_path, kind):
    (tmp_path / "lake").mkdir()
    config = config_of(kind, tmp_path / "lake")
    opened(kind, config)
    lakes = Lakes(config=config)
    options = {"table.datalake.enabled": True, "table.datalake.format": kind}
    async with restorable(tmp_path / "data") as storage:
        client, table, restore = await grown(storage, options=options)
        client.cluster.lakes = lakes
        assert (await tiered(client, table, lakes)).row_count == 20
        await restore()

        # The log is longer by now than what the lake holds.
        with pytest.raises(LakeAheadError, match="restored from an older copy"):
            await tiered(client, table, lakes)
        found = [name for _, name in await scanned(table)]

        assert (found.count("before"), found.count("after")) == (10, 30)
        assert await client.lake.snapshot(table.path) is None
        await client.close()
