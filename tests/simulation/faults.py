"""What goes wrong in a run: the seed says what, to whom and when."""

import random

from headwater.tiering.steps import Step
from tests.simulation.actors.auditor import audit_image
from tests.simulation.actors.tierers import Tierers
from tests.simulation.loop import OUTSIDE, Process
from tests.simulation.network import stormy
from tests.simulation.plan import LEASE_S
from tests.simulation.world import World

DAY_MS = 24 * 3600 * 1000
JUMPS_MS = (-30 * DAY_MS, -60_000, -3_000, 3_000, 60_000, 30 * DAY_MS)
DISK_STEPS_MAX = 40
FREQUENT = ("crash", "crash", "crash while writing", "crash while writing", "storm")
FREQUENT_IN_LAKES = ("pause of a tierer", "pause of a tierer", "death of a tierer")


class Fates:
    """Let things go wrong, one after the other, until there were enough."""

    def __init__(self, world: World, tierers: Tierers | None, clients: list[Process]) -> None:
        self._world = world
        self._tierers = tierers
        self._clients = clients
        self._chance: random.Random = world.chance("faults")
        self._paused: list[Process] = []
        self._kinds = {
            "crash": self._crash,
            "crash while writing": self._crash_while_writing,
            "restart": self._restart,
            "storm": self._storm,
            "clock": self._jump,
            "pause of a client": self._pause_client,
            "pause of the server": self._pause_server,
        }
        if tierers is not None:
            self._kinds |= {
                "pause of a tierer": self._pause_tierer,
                "death of a tierer": self._kill_tierer,
                "lake": self._lake,
            }
        self._frequent = (*FREQUENT, *(() if tierers is None else FREQUENT_IN_LAKES))

    async def run(self) -> None:
        """Let the faults of the plan happen, and heal what can be healed."""
        for _ in range(self._world.plan.faults):
            await self._sleep(self._world.plan.fault_pause_s)
            kind = self._chance.choice([*self._kinds, *self._frequent])
            self._world.note(f"fault: {kind}")
            self._world.faults[kind] += 1
            await self._kinds[kind]()
            if self._world.machine.is_down:
                audit_image(self._world, self._world.machine.disk)
                await self._sleep(1.0)
                await self._start()
        await self.heal()

    async def heal(self) -> None:
        """Let everything go on, and the server be there."""
        self._world.network.calm()
        self._world.lake.fault_share = 0.0
        for process in self._paused:
            process.is_paused = False
        while not self._world.machine.is_up:
            await self._start()
        self._world.machine.steps_left = None

    async def _sleep(self, seconds: float) -> None:
        await self._world.clock.sleep(self._chance.random() * 2 * seconds)

    # ---- the server

    async def _start(self) -> None:
        if self._chance.random() < 0.2:
            self._world.machine.crash_within(self._chance.randint(1, DISK_STEPS_MAX))
        if self._world.machine.is_down:
            await self._world.machine.start()

    async def _crash(self) -> None:
        self._world.machine.crash()

    async def _crash_while_writing(self) -> None:
        self._world.machine.crash_within(self._chance.randint(1, DISK_STEPS_MAX))

    async def _restart(self) -> None:
        if self._world.machine.is_up:
            await self._world.machine.stop()

    async def _pause_server(self) -> None:
        process = self._world.machine.process
        if process is not None:
            self._pause(process, self._chance.choice((0.5, 3.0, 10.0)))

    # ---- the others

    def _pause(self, process: Process, seconds: float) -> None:
        """Pause a process for a while."""
        world = self._world
        process.is_paused = True
        self._paused.append(process)
        world.note(f"pauses {process.name} for {seconds} s")
        at_s = world.loop.time() + seconds
        world.loop.call_in(OUTSIDE, at_s, setattr, process, "is_paused", False)

    async def _pause_client(self) -> None:
        process = self._chance.choice(self._clients)
        self._pause(process, self._chance.choice((1.0, 5.0, 20.0)))

    async def _pause_tierer(self) -> None:
        """Pause the next tierer that comes to some step, mostly for longer than its lease."""
        assert self._tierers is not None
        seconds = LEASE_S * self._chance.choice((0.5, 1.2, 2.0, 3.0))
        self._tierers.trap(self._step(), lambda process: self._pause(process, seconds))

    async def _kill_tierer(self) -> None:
        """Kill the next tierer that comes to some step."""
        assert self._tierers is not None
        self._tierers.trap(self._step(), self._tierers.kill)

    def _step(self) -> Step:
        return self._chance.choice(list(Step))

    async def _lake(self) -> None:
        self._world.lake.fault_share = self._chance.choice((0.1, 0.5))
        await self._sleep(3.0)
        self._world.lake.fault_share = 0.0

    async def _storm(self) -> None:
        self._world.network.weather = stormy(self._chance)
        self._world.note(f"{self._world.network.weather}")
        await self._sleep(5.0)
        self._world.network.calm()

    async def _jump(self) -> None:
        clock = self._chance.choice((self._world.machine.clock, self._world.clock))
        clock.off_ms += self._chance.choice(JUMPS_MS)
