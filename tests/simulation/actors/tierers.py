"""Those who tier: services as they run in earnest, which are killed, paused and started again."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from headwater.model.boundary import TieringEpoch
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import (
    News,
    RoundReport,
    RoundStep,
    Stepped,
    TieringTurn,
    TurnBegan,
    TurnEnded,
    TurnFailed,
)
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.simulation.loop import PROCESS, Process
from tests.simulation.plan import LEASE_S
from tests.simulation.world import World


class SimService(TieringService):
    """A service that tells whose turn it is."""

    epoch = TieringEpoch(0, 0)

    async def tier(self, turn: TieringTurn) -> RoundReport | None:
        self.epoch = turn.epoch
        return await super().tier(turn)


async def tier_for_ever(
    world: World, settings: TieringSettings, on_step: Callable[[RoundStep], None]
) -> None:
    """Run a tierer until it is killed."""
    client = await world.connect()

    def tell(news: News) -> None:
        world.note(f"tiering: {_shown(news)}")
        match news:
            case Stepped(path, step):
                if step is RoundStep.WRITE:
                    world.lake.begin_writing(path, service.epoch)
                on_step(step)
            case TurnEnded(_, report):
                world.figures["tiered"] += report.row_count

    service = SimService(
        client,
        LocalRunner(client),
        settings=settings,
        lakes=world.lake.lakes,
        listener=tell,
    )
    await service.run()


def _shown(news: News) -> str:
    match news:
        case Stepped(path, step):
            return f"{path} {step}"
        case TurnBegan(path):
            return f"{path} begins"
        case TurnEnded(path, report):
            return f"{path} ended with {report.row_count} rows, {report.rows_left} left"
        case TurnFailed(path, fault):
            return f"{path} failed: {type(fault).__name__}: {fault}"
        case _:
            return type(news).__name__


class Tierers:
    """Own the tierers: some run, some are paused, and some are dead."""

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._settings = world.plan.tiering
        self._started = 0
        # Steps of some round, and what is done to the one who comes to it first.
        self._traps: list[tuple[RoundStep, Callable[[Process], None]]] = []
        self.running: list[tuple[Process, asyncio.Task]] = []
        for _ in range(count):
            self.start()

    def start(self) -> None:
        """Start one more."""
        self._started += 1
        name = f"tierer-{self._started}"
        work = tier_for_ever(self._world, self._settings, self._stepped)
        self.running.append(self._world.start(name, work))

    def trap(self, step: RoundStep, strike: Callable[[Process], None]) -> None:
        """Do something to the next one who comes to a step, right before it is taken."""
        self._traps.append((step, strike))

    def spare(self) -> None:
        """Let nothing happen to anybody any more, and each be heard of as often as it must be."""
        self._traps.clear()
        is_slow = self._settings.heartbeat_interval_s > LEASE_S
        self._settings = replace(self._settings, heartbeat_interval_s=LEASE_S / 6)
        for process, _ in self.running:
            process.fuse = None
            if is_slow:
                self.kill(process)

    def _stepped(self, step: RoundStep) -> None:
        trap = next((each for each in self._traps if each[0] is step), None)
        if trap is not None:
            self._traps.remove(trap)
            trap[1](PROCESS.get())

    def kill(self, process: Process) -> None:
        """Kill one, and start another in its place."""
        process.kill()
        self.running = [each for each in self.running if each[0] is not process]
        self.start()
