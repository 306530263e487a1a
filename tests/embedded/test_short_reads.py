"""Rows got in the caller's thread, while the storage changes, moves and drops them."""

import asyncio
import os
import random
import sys
import threading
from contextlib import contextmanager

import pytest

import headwater
from headwater import aio, errors
from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.embedded.storage import PEER, InProcessDialer
from headwater.kv.store import KvSettings
from headwater.metrics.tallies import ANSWERED
from headwater.runtime.clock import SystemClock
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings
from headwater.wire.apis import ApiKey

SCHEMA = {"id": "INT", "n": "BIGINT", "text": "STRING"}
KEYS = 40
WRITES = 80
READERS = 4


@pytest.fixture(autouse=True)
def _switching():
    """Let threads take turns much more often, so that they meet in the middle of things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Storage:
    """Be a storage in this process whose server can be looked at, with tiny segments."""

    def __init__(self, directory, **settings):
        self.server = None
        self.client = Client.start(self._open(directory, ClientSettings(**settings)))

    async def _open(self, directory, settings):
        self.server = await Server.start(
            directory,
            ServerSettings(host="127.0.0.1"),
            storage=StorageSettings(kv=KvSettings(segment_bytes_max=2_000)),
            listens=False,
        )
        cluster = Cluster(
            [Address(PEER, 0)],
            Pool(InProcessDialer(self.server.serve)),
            settings=settings,
            clock=SystemClock(),
            reads=self.server.dispatcher,
        )
        await cluster.connect()
        return AsyncClient(cluster, on_close=self.server.stop)

    def tend(self):
        """Snapshot, spill and compact every bucket; return how many segments were rewritten."""

        async def work(_):
            rewritten = 0
            for _, keyed in self.server.tablets.keyed.all_open():
                await keyed.upkeep.snapshot()
                await keyed.upkeep.spill()
                rewritten += await keyed.upkeep.compact()
            return rewritten

        return self.client.run(work)

    def lookups(self):
        return self.server.tallies.requests.answers().get((ApiKey.LOOKUP, ANSWERED), 0)


@contextmanager
def storage_at(directory, **settings):
    storage = Storage(directory, **settings)
    try:
        yield storage
    finally:
        storage.client.close()


def row_of(number, version):
    """Make a row that tells if it is torn, of a length that varies."""
    return {"id": number, "n": version, "text": f"{number}:{version} " * (version % 7 + 1)}


class Readers:
    """Get rows from several threads until told to stop, and note whatever is wrong."""

    def __init__(self, table):
        self.table = table
        self.wrong = []
        self.ended = []
        self.acknowledged = [-1] * KEYS
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=[at]) for at in range(READERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads)

    def _read(self, seed):
        chance = random.Random(seed)
        while not self._stop.is_set():
            number = chance.randrange(KEYS)
            at_least = self.acknowledged[number]
            try:
                row = self.table.get(number)
            except errors.HeadwaterError as fault:
                self.ended.append(fault)
                return
            version = -1 if row is None else row["n"]
            if version < at_least or (row is not None and row != row_of(number, version)):
                self.wrong.append((number, at_least, row))


def test_threads_see_whole_rows_and_never_older_ones_than_were_acknowledged(tmp_path):
    with storage_at(tmp_path / "data") as storage:
        table = storage.client.create_table("t", SCHEMA, primary_key="id", buckets=2)
        chance, rewritten = random.Random(1), 0
        with Readers(table) as readers:
            for version in range(WRITES):
                numbers = chance.sample(range(KEYS), chance.choice([1, 1, 8]))
                table.upsert([row_of(number, version) for number in numbers])
                for number in numbers:
                    readers.acknowledged[number] = version
                if version % 10 == 0:
                    rewritten += storage.tend()

        assert readers.wrong == readers.ended == []
        assert rewritten > 0


def test_rows_that_are_deleted_stay_away(tmp_path):
    with storage_at(tmp_path / "data") as storage:
        table = storage.client.create_table("t", SCHEMA, primary_key="id")
        table.upsert([row_of(number, number) for number in range(KEYS)])
        seen_again, is_gone, is_over = [], [False] * KEYS, threading.Event()

        def look():
            while not is_over.is_set():
                for number in [at for at, gone in enumerate(is_gone) if gone]:
                    seen_again.extend([number] if table.get(number) is not None else [])

        threads = [threading.Thread(target=look) for _ in range(READERS)]
        for thread in threads:
            thread.start()
        for number in range(KEYS):
            table.delete([number])
            is_gone[number] = True
        is_over.set()
        for thread in threads:
            thread.join()

        assert seen_again == []


def test_who_reads_a_table_that_is_dropped_is_told_so(tmp_path):
    with storage_at(tmp_path / "data") as storage:
        table = storage.client.create_table("t", SCHEMA, primary_key="id")
        table.upsert([row_of(number, 1) for number in range(KEYS)])
        with Readers(table) as readers:
            storage.client.drop_table("t")
            for thread in readers._threads:
                thread.join(60)

        assert readers.wrong == []
        assert [type(fault) for fault in readers.ended] == [errors.TableMissingError] * READERS


def test_rows_that_are_not_on_disk_yet_are_shown_only_once_they_are(tmp_path):
    with storage_at(tmp_path / "data", acks=0) as storage:
        table = storage.client.create_table("t", SCHEMA, primary_key="id")
        for version in range(20):
            table.upsert(row_of(1, version))
            assert table.get(1) == row_of(1, version)
            ((_, tablet),) = storage.server.tablets.all_open()
            assert tablet.high_watermark == tablet.log.end_offset


def test_every_row_that_is_got_is_counted(tmp_path):
    with storage_at(tmp_path / "data") as storage:
        table = storage.client.create_table("t", SCHEMA, primary_key="id")
        table.upsert(row_of(1, 1))
        table.get(1)
        before = storage.lookups()
        threads = [
            threading.Thread(target=lambda: [table.get(1) for _ in range(500)])
            for _ in range(READERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert storage.lookups() - before == 500 * READERS


def test_a_closed_client_gets_nothing(tmp_path):
    storage = headwater.open(tmp_path / "data")
    table = storage.create_table("t", SCHEMA, primary_key="id")
    table.upsert(row_of(1, 1))
    storage.close()

    for ask in (lambda: table.get(1), lambda: table.lookup([1])):
        with pytest.raises(errors.ClosedError, match="closed"):
            ask()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_gets_nothing(tmp_path):
    with headwater.open(tmp_path / "data") as storage:
        table = storage.create_table("t", SCHEMA, primary_key="id")
        table.upsert(row_of(1, 1))
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                table.get(1)
            except errors.ClosedError as fault:
                os._exit(0 if "fork" in str(fault) else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def test_the_thread_of_the_client_must_not_block(tmp_path):
    with headwater.open(tmp_path / "data") as storage:
        table = storage.create_table("t", SCHEMA, primary_key="id")

        async def block(_):
            return table.get(1)

        with pytest.raises(errors.ClosedError, match="own thread"):
            storage.run(block)


async def test_who_awaits_rows_in_a_row_leaves_others_their_turn(tmp_path):
    async with await aio.open(tmp_path / "data") as storage:
        table = await storage.create_table("t", SCHEMA, primary_key="id")
        await table.upsert(row_of(1, 1))
        turns = []

        async def others():
            while len(turns) < 20:
                turns.append(await storage.cluster.clock.sleep(0))

        async with asyncio.TaskGroup() as group:
            group.create_task(others())
            rows = [await table.get(1) for _ in range(1000)]
            assert len(turns) == 20

    assert rows == [row_of(1, 1)] * 1000


async def test_a_client_that_awaits_and_was_closed_gets_nothing(tmp_path):
    async with await aio.open(tmp_path / "data") as storage:
        table = await storage.create_table("t", SCHEMA, primary_key="id")
        await table.upsert(row_of(1, 1))

    with pytest.raises(errors.ClosedError, match="closed"):
        await table.get(1)
