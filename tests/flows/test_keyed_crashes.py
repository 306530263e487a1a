"""Kill -9 while writers upsert and delete: what was acked is there, and state and log agree."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from headwater.cluster.links import TcpConnection
from headwater.errors import HeadwaterError
from tests.figures import times
from tests.flows.upserting import Rows
from tests.serving import ServerProcess

ROUNDS = 5
ROUNDS_TORTURE = times(80)
WRITERS = 4
KEYS_PER_WRITER = 20
KEYS_PER_BATCH = 7
ACKS_PER_ROUND = 25
SMALL = "tests.flows.small_server"


class Upserter:
    """Change the keys of one range, each batch with the next version.

    After a crash an even one resends what was not acked; an odd one begins anew.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.version = 0
        self.acked: dict[int, tuple | None] = {}
        self.sent: set[tuple[int, int]] = set()
        self.unknown: dict[int, tuple | None] = {}
        self._writer: tuple[int, int] | None = None
        self._round = asyncio.Event()

    async def acked_some(self) -> None:
        await self._round.wait()

    async def upsert_until_cut(self, port: int, table: Rows) -> None:
        self._round.clear()
        connection = await TcpConnection.open("127.0.0.1", port)
        rows, count = table.through(connection), 0
        try:
            writer_id, sequence = self._writer or (await rows.writer_id(), 0)
            while True:
                self._writer = (writer_id, sequence)
                self.unknown = self.unknown or self._next()
                changes = [row or (key,) for key, row in self.unknown.items()]
                await rows.put(*changes, writer=self._writer)
                self.acked |= self.unknown
                self.unknown, sequence, count = {}, sequence + 1, count + 1
                self._writer = (writer_id, sequence)
                if count >= ACKS_PER_ROUND:
                    self._round.set()
        except (HeadwaterError, ConnectionError) as cut:
            assert isinstance(cut, ConnectionError) or cut.retriable, cut
        finally:
            await connection.close()

    def _next(self) -> dict[int, tuple | None]:
        self.version += 1
        first = self.version * 3 % KEYS_PER_WRITER
        places = [(first + at) % KEYS_PER_WRITER for at in range(KEYS_PER_BATCH)]
        keys = [self.number * KEYS_PER_WRITER + place for place in places]
        self.sent |= {(key, self.version) for key in keys}
        return {
            key: None if at == self.version % 5 else (key, "x" * (key % 9) * 10, self.version)
            for at, key in enumerate(keys)
        }

    def settle(self, state: dict[int, tuple]) -> None:
        """Check what is there of this writer's rows: all that was acked, of the rest all or none.

        Whoever begins anew takes the rows as they are.
        """
        with_unknown = self.acked | self.unknown
        keys = range(self.number * KEYS_PER_WRITER, (self.number + 1) * KEYS_PER_WRITER)
        held = {key: state.get(key) for key in keys}
        is_there = held == {key: with_unknown.get(key) for key in keys}
        assert is_there or held == {key: self.acked.get(key) for key in keys}
        if self.number % 2:
            self.acked, self.unknown, self._writer = held, {}, None


async def crash_rounds(directory: Path, rounds: int) -> None:
    writers = [Upserter(number) for number in range(WRITERS)]
    server = ServerProcess(directory, module=SMALL)
    connection = await TcpConnection.open("127.0.0.1", server.port)
    table = await Rows.create(connection)
    await connection.close()
    for _ in range(rounds):
        work = [
            asyncio.ensure_future(each.upsert_until_cut(server.port, table)) for each in writers
        ]
        await asyncio.gather(*(each.acked_some() for each in writers))
        await asyncio.to_thread(server.kill)
        await asyncio.gather(*work)
        server = ServerProcess(directory, module=SMALL)
        await check(server.port, table, writers)
    assert server.stop() == 0
    assert_tended(directory, table.table_id)


async def check(port: int, table: Rows, writers: list[Upserter]) -> None:
    connection = await TcpConnection.open("127.0.0.1", port)
    rows = table.through(connection)
    changes = await rows.changes()
    state = folded(changes)
    keys = range(WRITERS * KEYS_PER_WRITER)
    assert await rows.all() == sorted(state.values())
    assert await rows.get(*keys) == [state.get(key) for key in keys]
    assert await rows.row_count() == len(state)
    written = Counter((row[0], row[2]) for _, kind, row in changes if kind in ("+I", "+U"))
    assert max(written.values()) == 1, "a batch was taken twice"
    assert set(written) <= set().union(*(writer.sent for writer in writers))
    for writer in writers:
        writer.settle(state)
    await connection.close()


def folded(changes: list[tuple[int, str, tuple]]) -> dict[int, tuple]:
    """Return the rows that the changelog tells of; each change must fit those before it."""
    state: dict[int, tuple] = {}
    last = -1
    for offset, kind, row in changes:
        assert offset == last + 1, "offsets have a gap"
        last = offset
        if kind in ("-U", "-D"):
            assert state.pop(row[0]) == row
        else:
            assert row[0] not in state
            state[row[0]] = row
    return state


def assert_tended(directory: Path, table_id: int) -> None:
    """Check that states were saved and compacted, or the rounds would have shown little."""
    found = [path.name for path in directory.glob(f"**/{table_id}/0/kv/*")]
    assert {name.partition("-")[0] for name in found} == {"snapshot", "segment"}
    # However slow the machine, the first files must be gone.
    assert min(map(_serial, found)) > 4, "nothing was rewritten"
    assert not [name for name in found if name.endswith(".damaged")]
    assert len(found) < 60, "files are left over"


def _serial(name: str) -> int:
    return int(name.rpartition("-")[2])


async def test_every_acked_upsert_survives_kill_9(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS)


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_every_acked_upsert_survives_two_hundred_kills(tmp_path):
    await crash_rounds(tmp_path / "data", ROUNDS_TORTURE)
