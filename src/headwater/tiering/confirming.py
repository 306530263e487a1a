"""Turns of servers that begin to count anew when they restart."""

from dataclasses import replace

from headwater.client.client import AsyncClient
from headwater.errors import TieringFencedError
from headwater.model.boundary import Boundary, TieringEpoch
from headwater.tiering.turn import Turn


async def confirmed(turn: Turn, held: Boundary | None, *, client: AsyncClient) -> Turn:
    """Return a turn that the lake can tell from those before it.

    Apache Fluss 0.9 forgets its turns when its coordinator restarts, and then hands out ones that
    the lake has seen. Whoever still holds the table by the word of the server goes on after the
    last turn that the lake knows.
    """
    if turn.storage_id is not None or held is None or held.epoch <= turn.epoch:
        return turn
    assignment = turn.assignment
    answer = await client.lake.heartbeat(tiering=[assignment])
    if assignment.table_id in answer.fenced:
        raise TieringFencedError(f"{assignment.path} was given to another tierer, or dropped.")
    last = held.epoch
    return replace(turn, fence=TieringEpoch(last.coordinator, last.turn + 1))
