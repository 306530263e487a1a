"""Bytes in the order in which they were asked for."""

import asyncio

from headwater.write.send import WriteRoom


async def turn() -> None:
    for _ in range(3):
        await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(int))])


async def test_who_finds_no_room_waits_in_turn():
    room, order = WriteRoom(100), []

    async def take(name, count):
        await room.take(count)
        order.append(name)

    await take("first", 80)
    waiting = [asyncio.ensure_future(take(name, 50)) for name in ("second", "third")]
    await turn()
    before = list(order)
    room.give(80)
    await asyncio.gather(*waiting)

    assert before == ["first"]
    assert order == ["first", "second", "third"]


async def test_one_taker_may_exceed_an_empty_room():
    room = WriteRoom(100)

    await room.take(1000)
    room.give(1000)

    await room.take(100)


async def test_who_gives_up_leaves_room_to_those_behind():
    room = WriteRoom(100)
    await room.take(60)
    large = asyncio.ensure_future(room.take(90))
    small = asyncio.ensure_future(room.take(40))
    await turn()

    large.cancel()
    await asyncio.gather(large, return_exceptions=True)

    await small
