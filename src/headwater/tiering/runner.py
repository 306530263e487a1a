"""Who runs the tasks of a round: this process, or an engine with workers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headwater.client.client import AsyncClient
from headwater.lake.spi import WriteResult
from headwater.tiering.task import (
    Outcome,
    RewriteTask,
    TieringTask,
    rewrite_files,
    tier_share,
)

PARALLEL = 2
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done:
    """Tell of a task that has ended."""

    task: TieringTask
    outcome: Outcome


Report = Callable[[Done], None]


class Runner(Protocol):
    """Run tasks side by side; when one fails for good, raise its error and let go of the others."""

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""
        ...

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        ...


class Here:
    """Run tasks in this process, a few at a time."""

    def __init__(self, client: AsyncClient, *, parallel: int = PARALLEL) -> None:
        self._client = client
        self._parallel = parallel

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""

        async def one(task: TieringTask) -> Outcome:
            outcome = await tier_share(task, self._client)
            report(Done(task, outcome))
            return outcome

        return await self._all([one(task) for task in tasks])

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        return await self._all([rewrite_files(task) for task in tasks])

    async def _all(self, works: Sequence[Coroutine[object, object, T]]) -> list[T]:
        room = asyncio.Semaphore(self._parallel)

        async def one(work: Awaitable[T]) -> T:
            async with room:
                return await work

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(one(work)) for work in works]
        except ExceptionGroup as faults:
            raise faults.exceptions[0] from None
        finally:
            for work in works:
                work.close()  # Those whose turn never came.
        return [each.result() for each in running]
