"""Links that are dialled for several, some of whom do not wait for the end."""

import asyncio
import gc

from headwater.cluster.links import Address, Pool
from headwater.errors import DisconnectedError
from tests.clocks import loop_turns


class Slow:
    """Dial until told that nobody answers."""

    def __init__(self) -> None:
        self.refused = asyncio.Event()

    async def dial(self, host: str, port: int):
        await self.refused.wait()
        raise DisconnectedError("Nobody answers.")


async def test_a_dial_that_fails_when_nobody_waits_any_more_is_no_complaint():
    complaints, dialer = [], Slow()
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    waiting = asyncio.ensure_future(Pool(dialer).link(Address("nowhere", 1)))
    await loop_turns()

    waiting.cancel()
    await asyncio.wait([waiting])
    dialer.refused.set()
    await loop_turns(5)
    del waiting
    gc.collect()

    assert complaints == []
