"""What goes wrong in a run: the seed says what, to whom and when."""

import random
from collections.abc import Callable

from headwater.server.tiering import BACKOFF_FIRST_MS
from headwater.tiering.progress import RoundStep
from tests.simulation.actors.auditor import audit_image
from tests.simulation.actors.tierers import Tierers
from tests.simulation.loop import OUTSIDE, Fuse, Process
from tests.simulation.network import stormy
from tests.simulation.plan import LEASE_S
from tests.simulation.world import World

DAY_MS = 24 * 3600 * 1000
JUMPS_MS = (-30 * DAY_MS, -60_000, -3_000, 3_000, 60_000, 30 * DAY_MS)
DISK_STEPS_MAX = 40
HANDLES_MAX_LOG2 = 9
# So soon after it has come to a step somebody is struck, in handles.
SOON = (0, 0, 1, 2, 3, 4, 5, 6, 8, 12)
# Those who hang there hold rows that others will tier, too.
DECISIVE = (RoundStep.WRITE, RoundStep.PREPARE, *[RoundStep.COMMIT] * 5) * 4
# When the lease is over a table rests, before somebody else is given it.
TAKEN_AFTER_S = LEASE_S + BACKOFF_FIRST_MS / 1000
TIERER_PAUSES_S = (3.0, *(TAKEN_AFTER_S + more for more in (2.0, 3.0, 4.0, 6.0, 8.0, 14.0)))
FREQUENT = ("crash", "crash while writing", "crash in the middle", "crash in the middle", "storm")
FREQUENT_IN_LAKES = (*["pause of a tierer"] * 3, "death of a tierer")


class Fates:
    """Let things go wrong, one after the other, until there were enough."""

    def __init__(self, world: World, tierers: Tierers | None, clients: list[Process]) -> None:
        self._world = world
        self._tierers = tierers
        self._clients = clients
        self._chance: random.Random = world.chance("faults")
        self._paused: list[Process] = []
        self._hanging: list[Process] = []
        self._kinds = {
            "crash": self._crash,
            "crash while writing": self._crash_while_writing,
            "crash in the middle": self._crash_in_the_middle,
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
        """Let the faults of the plan happen, and heal what can be healed.

        Where there is a lake, most often somebody hangs before everything else.
        """
        if self._tierers is not None and self._chance.random() < 0.7:
            await self._strike("pause of a tierer")
        for _ in range(self._world.plan.faults):
            await self._wait(self._world.plan.fault_pause_s)
            await self._strike(self._chance.choice([*self._kinds, *self._frequent]))
            if self._world.machine.is_down:
                audit_image(self._world, self._world.machine.disk)
                await self._wait(1.0)
                await self._start()
        await self.heal()

    async def _strike(self, kind: str) -> None:
        self._world.note(f"fault: {kind}")
        self._world.faults[kind] += 1
        await self._kinds[kind]()

    async def heal(self, *, for_good: bool = False) -> None:
        """Let everything go on, and the server be there; tierers that hang may do so for a while.

        Who hangs until others have its table finds out when it goes on. For good, nothing happens
        to anybody any more.
        """
        self._world.network.calm()
        self._world.lake.fault_share = 0.0
        for process in self._paused:
            process.is_paused = False
        while not self._world.machine.is_up:
            await self._start()
        self._world.machine.spare()
        if for_good and self._tierers is not None:
            self._tierers.spare()

    async def awakening(self) -> None:
        """Wait until nobody hangs any more."""
        while self._somebody_hangs():
            await self._world.clock.sleep(1.0)

    def _somebody_hangs(self) -> bool:
        return any(process.is_alive and process.is_paused for process in self._hanging)

    async def _wait(self, seconds: float) -> None:
        await self._world.pause(self._chance, 2 * seconds)

    # ---- the server

    async def _start(self) -> None:
        fate = self._chance.random()
        if fate < 0.15:
            await self._crash_while_writing()
        elif fate < 0.3:
            await self._crash_in_the_middle()
        if self._world.machine.is_down:
            await self._world.machine.start()

    async def _crash(self) -> None:
        self._world.machine.crash()

    async def _crash_while_writing(self) -> None:
        self._world.machine.crash_within(self._chance.randint(1, DISK_STEPS_MAX))

    async def _crash_in_the_middle(self) -> None:
        """Crash between any two things that the server does, whatever waits to be done."""
        handles = int(2 ** (self._chance.random() * HANDLES_MAX_LOG2))
        self._world.machine.crash_after(handles)

    async def _restart(self) -> None:
        if self._world.machine.is_up:
            await self._world.machine.stop()

    async def _pause_server(self) -> None:
        process = self._world.machine.process
        if process is not None:
            self._paused.append(process)
            self._pause(process, self._chance.choice((0.5, 3.0, 10.0)))

    # ---- the others

    def _pause(self, process: Process, seconds: float) -> None:
        """Pause a process for a while."""
        world = self._world
        process.is_paused = True
        world.note(f"pauses {process.name} for {seconds} s")
        at_s = world.loop.time() + seconds
        world.loop.call_in(OUTSIDE, at_s, setattr, process, "is_paused", False)

    async def _pause_client(self) -> None:
        process = self._chance.choice(self._clients)
        self._paused.append(process)
        self._pause(process, self._chance.choice((1.0, 5.0, 20.0)))

    async def _pause_tierer(self) -> None:
        """Pause a tierer at some step or soon after, mostly until others have its table."""
        seconds = self._chance.choice(TIERER_PAUSES_S)

        def hang(process: Process) -> None:
            # If all hang nobody takes a table over.
            if not self._somebody_hangs():
                self._hanging.append(process)
                self._pause(process, seconds)

        self._trap(hang)

    async def _kill_tierer(self) -> None:
        """Kill a tierer at some step or soon after."""
        assert self._tierers is not None
        self._trap(self._tierers.kill)

    def _trap(self, strike: Callable[[Process], None]) -> None:
        assert self._tierers is not None
        step, handles = self._chance.choice((*RoundStep, *DECISIVE)), self._chance.choice(SOON)

        def sprung(process: Process) -> None:
            if handles:
                process.fuse = Fuse(handles, lambda: strike(process))
            else:
                strike(process)

        self._tierers.trap(step, sprung)

    async def _lake(self) -> None:
        self._world.lake.fault_share = self._chance.choice((0.1, 0.5))
        await self._wait(3.0)
        self._world.lake.fault_share = 0.0

    async def _storm(self) -> None:
        self._world.network.weather = stormy(self._chance)
        self._world.note(f"{self._world.network.weather}")
        await self._wait(5.0)
        self._world.network.calm()

    async def _jump(self) -> None:
        clock = self._chance.choice((self._world.machine.clock, self._world.clock))
        clock.off_ms += self._chance.choice(JUMPS_MS)
