"""Those who tier: services as they run in earnest, which are killed, paused and started again."""

import asyncio
from collections.abc import Callable

from headwater.tiering.progress import Began, Ended, Failed, News, Stepped
from headwater.tiering.runner import Here
from headwater.tiering.service import TieringService
from headwater.tiering.steps import Step
from tests.simulation.loop import PROCESS, Process
from tests.simulation.world import World


async def tier_for_ever(world: World, on_step: Callable[[Step], None]) -> None:
    """Run a tierer until it is killed."""
    client = await world.connect()

    def tell(news: News) -> None:
        world.note(f"tiering: {_shown(news)}")
        if isinstance(news, Stepped):
            on_step(news.step)

    service = TieringService(
        client,
        Here(client),
        settings=world.plan.tiering,
        lakes=world.lake.lakes,
        listener=tell,
    )
    await service.run()


def _shown(news: News) -> str:
    match news:
        case Stepped(path, step):
            return f"{path} {step}"
        case Began(path):
            return f"{path} begins"
        case Ended(path, report):
            return f"{path} ended with {report.row_count} rows, {report.rows_left} left"
        case Failed(path, fault):
            return f"{path} failed: {type(fault).__name__}: {fault}"
        case _:
            return type(news).__name__


class Tierers:
    """Own the tierers: some run, some are paused, and some are dead."""

    def __init__(self, world: World, count: int) -> None:
        self._world = world
        self._started = 0
        # A step of some round, and what is done to the one who comes to it first.
        self._trap: tuple[Step, Callable[[Process], None]] | None = None
        self.running: list[tuple[Process, asyncio.Task]] = []
        for _ in range(count):
            self.start()

    def start(self) -> None:
        """Start one more."""
        self._started += 1
        name = f"tierer-{self._started}"
        work = tier_for_ever(self._world, self._stepped)
        self.running.append(self._world.start(name, work))

    def trap(self, step: Step, strike: Callable[[Process], None]) -> None:
        """Do something to the next one who comes to a step, right before it is taken."""
        self._trap = step, strike

    def _stepped(self, step: Step) -> None:
        if self._trap is not None and self._trap[0] is step:
            (_, strike), self._trap = self._trap, None
            strike(PROCESS.get())

    def kill(self, process: Process) -> None:
        """Kill one, and start another in its place."""
        process.kill()
        self.running = [each for each in self.running if each[0] is not process]
        self.start()
