"""A tierer in a process of its own that kills itself before a step, for tests of what is left."""

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from headwater import aio
from headwater.cluster.lake import TieringAssignment
from headwater.lake.lakes import Lakes, open_lake
from headwater.model.boundary import TieringEpoch
from headwater.tiering.plan import Limits
from headwater.tiering.progress import RoundStep, TieringTurn
from headwater.tiering.round import tier_round
from headwater.tiering.task import LocalRunner, Runner
from tests.tiering.world import STORAGE

WITHIN_S = 60
# Forked from a process that has loaded what takes long to load, and has no threads.
LOADED = [
    "headwater.aio",
    "headwater.tiering.round",
    "headwater.lake.iceberg.plugin",
    "headwater.lake.paimon.plugin",
    "pyiceberg.catalog.sql",
    "pypaimon",
]
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(LOADED)


@dataclass(frozen=True)
class Dying:
    """Say what to tier, and before which step to die; None to live."""

    address: str
    table: str
    format: str
    turn: int
    step: RoundStep | None
    lake: Mapping[str, str] = field(default_factory=dict)

    async def run(self) -> int | None:
        """Tier in another process, and return how it ended."""
        process = _processes.Process(target=_tier, args=(self,))
        process.start()
        return await asyncio.to_thread(_code, process)


def _code(process: BaseProcess) -> int | None:
    process.join(WITHIN_S)
    return process.exitcode


def _tier(dying: Dying) -> None:
    asyncio.run(tier_dying(dying, LocalRunner))


async def tier_dying(dying: Dying, runner: Callable[[aio.AsyncClient], Runner]) -> None:
    """Run one round, or a part of it."""

    async def watch(step: RoundStep) -> None:
        if step is dying.step:
            os.kill(os.getpid(), signal.SIGKILL)

    async with await aio.connect(dying.address) as client:
        table = await client.table(dying.table)
        assignment = TieringAssignment(
            path=table.path, table_id=table.info.table_id, epoch=TieringEpoch(1, dying.turn)
        )
        await tier_round(
            TieringTurn(assignment, STORAGE),
            client=client,
            runner=runner(client),
            lakes=Lakes(opener=lambda name, _config: open_lake(name, dying.lake)),
            limits=Limits(rows_max=1_000_000),
            watch=watch,
        )
