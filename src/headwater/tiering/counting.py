"""A runner that tells how far it is."""

from collections.abc import Sequence

from headwater.lake.spi import WriteResult
from headwater.tiering.progress import Copied, Listener
from headwater.tiering.runner import Done, Report, Runner
from headwater.tiering.task import Outcome, RewriteTask, Skipped, TieringTask


class Counted:
    """Let another runner run tasks, and tell a listener of each that ends."""

    def __init__(self, runner: Runner, listener: Listener) -> None:
        self._runner = runner
        self._listener = listener

    async def run(self, tasks: Sequence[TieringTask], *, report: Report) -> list[Outcome]:
        """Return what came of each task, in the order of the tasks, and report each as it ends."""
        done = rows = 0

        def count(each: Done) -> None:
            nonlocal done, rows
            report(each)
            done += 1
            rows += 0 if isinstance(each.outcome, Skipped) else each.outcome.row_count
            path = each.task.table.path
            self._listener(Copied(path, tasks_done=done, tasks=len(tasks), rows=rows))

        return await self._runner.run(tasks, report=count)

    async def rewrite(self, tasks: Sequence[RewriteTask]) -> list[WriteResult]:
        """Return the files that each rewrite has led to, in the order of the tasks."""
        return await self._runner.rewrite(tasks)
