"""The official client reads a log whose batches the server has joined as it read it before."""

import fluss
import pyarrow as pa

from headwater import aio
from tests.conformance.client import poll_records
from tests.server.support import running
from tests.server.test_joins import ROWS, STORAGE, join_all, written


async def seen(connection, offset: int) -> list[tuple[int, int, str, object]]:
    """Return what the client tells of each record of both tables, from an offset on."""
    found = []
    for name in ("log", "keyed"):
        table = await connection.get_table(fluss.TablePath("fluss", name))
        scanner = await table.new_scan().create_log_scanner()
        scanner.subscribe(0, offset)
        for record in await poll_records(scanner, ROWS - offset):
            if record.offset < ROWS:
                kind = str(record.change_type)
                found.append((record.offset, record.timestamp, kind, record.row))
    return found


async def test_records_offsets_times_and_changes_are_the_same(tmp_path):
    async with (
        running(tmp_path / "data", storage=STORAGE) as server,
        await aio.connect(f"127.0.0.1:{server.port}") as client,
    ):
        address = f"127.0.0.1:{server.port}"
        connection = await fluss.FlussConnection.create(
            fluss.Config({"bootstrap.servers": address})
        )
        await written(client, server)
        before = [await seen(connection, offset) for offset in (0, 17)]

        assert await join_all(server) < ROWS // 2

        assert [await seen(connection, offset) for offset in (0, 17)] == before
        table = await connection.get_table(fluss.TablePath("fluss", "log"))
        scanner = await table.new_scan().project([1]).create_record_batch_log_scanner()
        scanner.subscribe(0, 5)
        rows: pa.Table = await scanner.to_arrow()
        assert rows["text"].to_pylist() == [f"text {number}" for number in range(5, ROWS)]
        await connection.close()
