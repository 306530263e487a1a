"""Tables that a tierer holds: asked for, kept by heartbeats, and given back."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

from headwater.client.client import AsyncClient
from headwater.cluster import lake
from headwater.errors import HeadwaterError, RetryLaterError, TieringFencedError
from headwater.lake.spi import LakeSnapshot
from headwater.model import TablePath
from headwater.runtime.events import Events
from headwater.runtime.tasks import to_the_end
from headwater.tiering.plan import TieringSettings

T = TypeVar("T")
_events = Events("tiering")


class Leases:
    """Speak with the server about who tiers what."""

    def __init__(self, client: AsyncClient, settings: TieringSettings) -> None:
        self._client = client
        self._settings = settings
        # What the next heartbeat tells; the server would wait for a round that it never hears of.
        self._finished: list[lake.FinishedRound] = []
        self._failed: list[lake.FailedRound] = []

    async def states(self) -> tuple[lake.TieringState, ...] | None:
        """Return where all tables stand; None from a server that does not tell."""
        answer = await self._client.lake.heartbeat(list_states=True)
        return None if answer.storage_id is None else answer.states

    async def ask(
        self, tables: Sequence[TablePath], *, ignore_freshness: bool = False
    ) -> lake.HeartbeatAnswer:
        """Ask for a table, one of some if the server can choose."""
        return await self._heartbeat(
            request=True, only_tables=tables, ignore_freshness=ignore_freshness
        )

    async def during(
        self, assignment: lake.TieringAssignment, work: Coroutine[object, object, T]
    ) -> T:
        """Do work on a table while telling that it is held; lose the table, and the work ends."""
        task = asyncio.get_running_loop().create_task(work)
        interval_s = self._settings.heartbeat_interval_s
        try:
            while not (await asyncio.wait({task}, timeout=interval_s))[0]:
                if not await self._holds(assignment):
                    raise TieringFencedError(
                        f"{assignment.path} was given to another tierer, or dropped."
                    )
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await _ended(task)

    def finished(
        self, assignment: lake.TieringAssignment, snapshot: LakeSnapshot | None, *, is_forced: bool
    ) -> None:
        """Have it told that a table was tiered, and what its lake table holds."""
        self._finished.append(
            lake.FinishedRound(
                assignment=assignment,
                is_forced=is_forced,
                file_size=None if snapshot is None else snapshot.byte_count,
                record_count=None if snapshot is None else snapshot.row_count,
            )
        )

    def failed(self, assignment: lake.TieringAssignment, fault: Exception) -> None:
        """Have it told that a table could not be tiered, and why."""
        why = f"{type(fault).__name__}: {fault}"
        self._failed.append(lake.FailedRound(assignment=assignment, failure=why))

    def give_back(self, assignment: lake.TieringAssignment) -> None:
        """Have it told that a table is free again, and due as before."""
        self._finished.append(lake.FinishedRound(assignment=assignment, is_forced=True))

    async def close(self) -> None:
        """Tell what was not told yet, if the server can be reached in time."""
        if not self._finished and not self._failed:
            return
        try:
            async with asyncio.timeout(self._settings.goodbye_s):
                await self._heartbeat()
        except (HeadwaterError, TimeoutError) as fault:
            # It hands the tables out again by itself when it hears nothing of them.
            _events.warning("gave nothing back", reason=str(fault))

    async def _holds(self, assignment: lake.TieringAssignment) -> bool:
        try:
            answer = await self._client.lake.heartbeat(tiering=[assignment])
        except RetryLaterError as fault:
            # Whether others were given the table shows when the round commits.
            _events.warning("heartbeat failed", table=str(assignment.path), reason=str(fault))
            return True
        return assignment.table_id not in answer.fenced

    async def _heartbeat(
        self,
        *,
        request: bool = False,
        only_tables: Sequence[TablePath] = (),
        ignore_freshness: bool = False,
    ) -> lake.HeartbeatAnswer:
        finished, failed = tuple(self._finished), tuple(self._failed)
        answer = await self._client.lake.heartbeat(
            finished=finished,
            failed=failed,
            request=request,
            only_tables=only_tables,
            ignore_freshness=ignore_freshness,
        )
        del self._finished[: len(finished)], self._failed[: len(failed)]
        return answer


async def _ended(task: "asyncio.Task[T]") -> None:
    """Wait for the end of work that was cancelled; the reason to end it is what counts."""
    try:
        await to_the_end(task)
    except asyncio.CancelledError:
        # The work's own end, unless the caller is to end as well.
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
    except Exception as fault:  # noqa: BLE001 - whatever it says at its end
        _events.info("failed after cancellation", reason=f"{type(fault).__name__}: {fault}")
