"""A client in a process of its own, which keeps journals of what it did and saw.

python -m tests.torture.worker KIND+KIND ADDRESS NAME JOURNALS [SETTINGS]
It works until SIGTERM, then ends what it began; SIGKILL is fine, too.
"""

import asyncio
import itertools
import json
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from headwater.aio import AsyncClient, connect
from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError, RetryLaterError
from headwater.testing.history import LogHistory
from headwater.testing.key_history import KeyHistory
from headwater.write.receipts import BucketReceipt
from tests.torture.chance import chance

LOG, KEYED = "torture.events", "torture.state"
LANES = 3
ROWS_MAX = 4
PAUSE_S = 0.01
KEYS = 6
KEYS_LAST_S = 3.0
POLL_S = 0.3
WAITING = {"connect_timeout_s": 60.0, "waits_for_server": True}


class Worker:
    """Do some kinds of work in several lanes until told to stop."""

    def __init__(self, client, name: str, journals: Path) -> None:
        self.client = client
        self.name = name
        self.journals = journals
        self.stopping = asyncio.Event()
        self.chance = chance(name)

    async def run(self, kinds: list[str]) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stopping.set)
        async with asyncio.TaskGroup() as group:
            for kind in kinds:
                work = {"append": self.append, "upsert": self.upsert, "tail": self.tail}[kind]
                group.create_task(work(self.journals / f"{kind}-{self.name}"))

    async def table(self, name: str):
        """Find a table, however often that takes longer than we wait."""
        while True:
            with suppress(RetryLaterError):
                return await self.client.table(name)

    async def pause(self) -> None:
        await asyncio.sleep(self.chance.random() * 2 * PAUSE_S)

    # ---- log

    async def append(self, journal: Path) -> None:
        """Append rows in several lanes; each lane's rows keep their order."""
        history, table = LogHistory(journal=journal), await self.table(LOG)
        async with asyncio.TaskGroup() as group:
            for lane in range(LANES):
                group.create_task(self._append_lane(history, table, f"{self.name}.{lane}"))
        history.close()

    async def _append_lane(self, history: LogHistory, table, lane: str) -> None:
        number, session = 0, 0
        while not self.stopping.is_set():
            writer = f"{lane}.{session}"
            values = [f"{lane}/{number + at}" for at in range(self.chance.randint(1, ROWS_MAX))]
            number += len(values)
            sent = [history.send(writer, value) for value in values]
            try:
                receipt = await table.append([(lane, value) for value in values])
            except RetryLaterError:
                # It may have been written; whoever writes on does so under another name.
                for operation in sent:
                    history.lose(operation)
                session += 1
                continue
            (place,) = receipt.buckets  # all rows of a lane go to one bucket
            note_acks(history, sent, place)
            await self.pause()

    async def tail(self, journal: Path) -> None:
        """Follow the log from its beginning, and now and then from there anew."""
        history, table = LogHistory(journal=journal), await self.table(LOG)
        for session in itertools.count():
            if self.stopping.is_set():
                break
            with suppress(RetryLaterError):  # the server is away; another session begins anew
                async with await table.tail("earliest") as tail:
                    await self._follow(history, tail, f"{self.name}.{session}")
        history.close()

    async def _follow(self, history: LogHistory, tail, reader: str) -> None:
        until = time.monotonic() + self.chance.uniform(2, 20)
        while time.monotonic() < until and not self.stopping.is_set():
            for batch in await tail.poll(POLL_S):
                values = batch.rows["value"].to_pylist()
                for offset, value in zip(batch.offsets.tolist(), values, strict=True):
                    history.read(reader, bucket=batch.bucket.bucket, offset=offset, value=value)

    # ---- rows by key

    async def upsert(self, journal: Path) -> None:
        """Put, delete and get a few keys that others use as well; keys change over time."""
        history, table = KeyHistory(journal=journal), await self.table(KEYED)
        async with asyncio.TaskGroup() as group:
            for lane in range(LANES):
                group.create_task(self._key_lane(history, table, f"{self.name}.{lane}"))
        history.close()

    async def _key_lane(self, history: KeyHistory, table, lane: str) -> None:
        number, session = 0, 0
        while not self.stopping.is_set():
            client, number = f"{lane}.{session}", number + 1
            # All processes of the machine agree on it, and no key has a long history.
            epoch = int(time.monotonic() / KEYS_LAST_S)
            key = f"{epoch}-{self.chance.randrange(KEYS)}"
            try:
                await self._operate(history, table, client, (key, f"{lane}/{number}"))
            except RetryLaterError:
                session += 1
            await self.pause()

    async def _operate(self, history: KeyHistory, table, client: str, row: tuple[str, str]) -> None:
        key, value = row
        what = self.chance.random()
        if what < 0.4:
            operation = history.get(client, key)
        elif what < 0.5:
            operation = history.delete(client, key)
        else:
            operation = history.put(client, key, value)
        try:
            if what < 0.4:
                found = await table.get({"id": key})
                history.done(operation, None if found is None else found["value"])
            else:
                await (table.delete({"id": key}) if what < 0.5 else table.upsert([row]))
                history.done(operation)
        except HeadwaterError:
            history.lose(operation)
            raise


def note_acks(history: LogHistory, sent: list[int], place: BucketReceipt) -> None:
    """Note that rows are written, and where, unless the server has not said."""
    for at, operation in enumerate(sent, start=place.end_offset - len(sent)):
        # One that was sent again after many others is known to be there, but not where.
        is_said = place.end_offset >= len(sent)
        history.ack(operation, bucket=place.bucket, offset=at if is_said else None)


async def reached(address: str, limits: ClientSettings) -> AsyncClient:
    """Reach a server, however often one that is killed all the time takes longer than we wait."""
    while True:
        with suppress(RetryLaterError):
            return await connect(address, settings=limits)


async def main(kinds: str, address: str, name: str, journals: str, settings: str = "{}") -> None:
    limits = ClientSettings(**WAITING | json.loads(settings))
    async with await reached(address, limits) as client:
        await Worker(client, name, Path(journals)).run(kinds.split("+"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
