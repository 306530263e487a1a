"""The machine of the server: its disk and its data directory, which outlive every crash."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headwater.config.server import ServerSettings
from headwater.server.server import Server
from headwater.server.tablets import StorageSettings
from headwater.store.memory import MemoryDisk
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk, fate
from tests.simulation.loop import PROCESS, Fuse, Process, SimExecutor, SimLoop
from tests.simulation.network import Host, Network
from tests.simulation.threads import current_strand

REST_SHARE = 0.5


@dataclass(frozen=True)
class Setup:
    """Hold the settings of the server."""

    server: ServerSettings
    storage: StorageSettings
    split_share: float
    """How much of the work of threads is left in the middle now and then."""


class Machine:
    """Start, stop and crash the server.

    The catalog is a real SQLite file whose transactions are synced, so that a crash leaves it as
    it is at that moment; logs and states lie on a disk that forgets what was not synced.
    """

    def __init__(
        self,
        root: Path,
        setup: Setup,
        *,
        loop: SimLoop,
        network: Network,
        chance: random.Random,
        note: Callable[[str], None],
    ) -> None:
        self.clock = SimClock(loop)
        self.crashes = 0
        self.process: Process | None = None
        self.server: Server | None = None
        self.steps_left: int | None = None
        self._fuse: Fuse | None = None
        self.directory = root / "data"
        self._setup = setup
        self._loop = loop
        self._network = network
        self._chance = chance
        self._note = note
        self._disk = SimDisk(MemoryDisk(), self._step)
        self._starts = 0
        self._dead: list[Server] = []

    @property
    def disk(self) -> MemoryDisk:
        return self._disk.inner

    @property
    def is_up(self) -> bool:
        return self.server is not None

    @property
    def is_down(self) -> bool:
        return self.process is None

    # ---- starting

    async def start(self) -> None:
        """Start the server and wait until it serves; it may be dead again by then."""
        assert self.process is None
        self._starts += 1
        _mirror_directories(self.disk, self.directory / "log")
        process = self.process = self._loop.process(f"server-{self._starts}")
        process.fuse = self._fuse
        self._note(f"starts {process.name}")
        task = self._loop.start_in(process, self._start(process))
        await self._until(lambda: task.done() or not process.is_alive)
        if task.done():
            task.result()

    async def _start(self, process: Process) -> None:
        server = await Server.start(
            self.directory,
            self._setup.server,
            clock=self.clock,
            storage=self._setup.storage,
            disk=self._disk,
            executor=SimExecutor(self._loop, split_share=self._setup.split_share),
            listens=False,
        )
        self.server = server
        host = Host(process, server.serve, self._network)
        # In the place of a listener: the server ends it where it would end that.
        server.listener = host
        self._network.go_up(host)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.clock.sleep(0.05)

    # ---- ending

    async def stop(self) -> None:
        """Stop the server in order; its disk then keeps what was synced, and nothing else."""
        process, server = self.process, self.server
        assert process is not None
        assert server is not None
        self._note(f"stops {process.name}")
        task = self._loop.start_in(process, server.stop())
        await self._until(lambda: task.done() or not process.is_alive)
        if process.is_alive:
            task.result()
            self._end("lost", lambda _: None)

    def crash(self) -> None:
        """Kill the server and cut the power at the same moment."""
        if self.process is None:
            return
        self.crashes += 1
        self._end(*fate(self._chance))

    def crash_within(self, steps: int) -> None:
        """Crash before the so many-th change of the disk from now on."""
        self.steps_left = steps

    def crash_after(self, handles: int) -> None:
        """Crash before the so many-th handle of the server from now on, or from its start."""
        self._fuse = Fuse(handles, self.crash)
        if self.process is not None:
            self.process.fuse = self._fuse

    def spare(self) -> None:
        """Let no crash happen that was to come."""
        self.steps_left = self._fuse = None
        if self.process is not None:
            self.process.fuse = None

    def _step(self) -> None:
        process = self.process
        if process is None or PROCESS.get() is not process:
            return
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.crash()
        strand = current_strand()
        if strand is not None and self._chance.random() < REST_SHARE:
            strand.stop_here()

    def _end(self, word, fates) -> None:
        process, self.process = self.process, None
        assert process is not None
        process.kill()
        self.steps_left = self._fuse = None
        self._network.go_down()
        unsynced = len(self.disk.unsynced())
        self._note(f"ends {process.name}: {unsynced} changes were not synced: {word}")
        # What the dead still does in this very call happens to files that nobody has any more.
        self._disk = SimDisk(self.disk.crashed(fates), self._step)
        dead = self.directory.with_name(f"dead-{self._starts}")
        self.directory.rename(dead)
        shutil.copytree(dead, self.directory)
        if self.server is not None:
            self._dead.append(self.server)
        self.server = None

    def bury(self) -> None:
        """Close the files of all servers there were."""
        servers = [*self._dead, *([] if self.server is None else [self.server])]
        for server in servers:
            server._services.catalog.close()


def _mirror_directories(disk: MemoryDisk, target: Path) -> None:
    """Make the directories of buckets, by which a server finds what it has to recover."""
    for path in sorted(disk._directories):
        (target / path).mkdir(parents=True, exist_ok=True)
