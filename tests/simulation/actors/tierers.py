"""Those who tier: services as they run in earnest, which are killed, paused and started again."""

import asyncio

from headwater.tiering.progress import Began, Ended, Failed, News, Stepped
from headwater.tiering.runner import Here
from headwater.tiering.service import TieringService
from tests.simulation.loop import Process
from tests.simulation.world import World


async def tier_for_ever(world: World) -> None:
    """Run a tierer until it is killed."""
    client = await world.connect()

    def tell(news: News) -> None:
        world.note(f"tiering: {_shown(news)}")

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
        self.running: list[tuple[Process, asyncio.Task]] = []
        for _ in range(count):
            self.start()

    def start(self) -> None:
        """Start one more."""
        self._started += 1
        name = f"tierer-{self._started}"
        self.running.append(self._world.start(name, tier_for_ever(self._world)))

    def kill(self, process: Process) -> None:
        """Kill one, and start another in its place."""
        process.kill()
        self.running = [each for each in self.running if each[0] is not process]
        self.start()
