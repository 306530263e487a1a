"""Everything there is in one run: the machine, the network, the lake, the clients, the trace."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

from headwater.client.client import AsyncClient
from headwater.client.table import AsyncTable
from headwater.cluster.cluster import Cluster
from headwater.cluster.links import Address, Pool
from headwater.config.client import ClientSettings
from headwater.embedded.storage import PEER
from headwater.errors import HeadwaterError, RetryLaterError
from headwater.testing.history import LogHistory
from headwater.testing.key_history import KeyHistory
from tests.simulation.clock import SimClock
from tests.simulation.lake import SimLake
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.machine import Machine
from tests.simulation.network import Network, SimDialer
from tests.simulation.plan import Plan, drawn_plan

EVENTS = "events"
ACCOUNTS = "accounts"
STEPS_MAX = 2_000_000


class World:
    """Own the parts of a run, and what is noted of it."""

    def __init__(self, seed: int, root: Path) -> None:
        self.seed = seed
        self._root = str(root)
        self.plan: Plan = drawn_plan(self.chance("plan"))
        self.loop = SimLoop(self.chance("loop"), steps_max=STEPS_MAX, work_s=self.plan.work_s)
        self.trace: list[str] = []
        self.violations: list[str] = []
        self.is_over = False
        self.faults: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self.clock = SimClock(self.loop)
        self.log = LogHistory()
        self.keys = KeyHistory(clock=self.clock)
        self.network = Network(self.loop, self.chance("network"), self.note)
        self.lake = SimLake(root / "lake", self.clock, self.chance("lake"))
        self.machine = Machine(
            root,
            self.plan.setup,
            loop=self.loop,
            network=self.network,
            chance=self.chance("fates"),
            note=self.note,
        )

    def chance(self, part: str) -> random.Random:
        """Return the chance of one part; what others draw does not change it."""
        return random.Random(f"{self.seed}/{part}")

    # ---- what is noted

    def note(self, text: str) -> None:
        """Add a line to the trace; what happens when all is over is not told."""
        if self.is_over:
            return
        text = text.replace(self._root, "")
        self.trace.append(f"{self.loop.time():11.6f} {PROCESS.get().name}: {text}")

    def violated(self, text: str) -> None:
        """Note that a promise was broken; what happens when all is over counts no more."""
        if not self.is_over:
            self.note(f"VIOLATION: {text}")
            self.violations.append(text)

    # ---- processes and clients

    def start(
        self, name: str, work: Coroutine[object, object, None]
    ) -> tuple[Process, asyncio.Task]:
        """Run an actor in a process of its own."""
        process = self.loop.process(name)
        return process, self.loop.start_in(process, self._watched(work), name=name)

    async def _watched(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as fault:  # noqa: BLE001 - whatever an actor did not expect is a finding
            self.violated(f"{PROCESS.get().name} failed with {fault!r}")

    async def connect(self, settings: ClientSettings | None = None) -> AsyncClient:
        """Return a client of the process that asks, once the server can be reached."""
        while True:
            cluster = Cluster(
                [Address(PEER, 0)],
                Pool(SimDialer(self.network)),
                settings=settings or self.plan.client,
                clock=self.clock,
                lakes=self.lake.lakes,
            )
            try:
                await cluster.connect()
            except RetryLaterError:
                await cluster.close()
                await self.clock.sleep(0.5)
            else:
                return AsyncClient(cluster)

    async def pause(self, chance: random.Random, most_s: float) -> None:
        """Wait for as long as chance has it."""
        await self.clock.sleep(chance.random() * most_s)

    async def table(self, client: AsyncClient, name: str) -> AsyncTable:
        """Return a table that is there, however long it takes."""
        while True:
            try:
                return await client.table(name)
            except RetryLaterError:
                await self.clock.sleep(0.5)

    async def create_tables(self) -> None:
        """Create the two tables, before anything goes wrong."""
        plan = self.plan
        client = await self.connect()
        schema = {"id": "BIGINT", "value": "STRING"}
        await client.create_table(
            EVENTS,
            schema,
            buckets=plan.buckets,
            bucket_by="id" if plan.is_bucketed else (),
            options=plan.options,
        )
        await client.create_table(
            ACCOUNTS, schema, primary_key="id", buckets=plan.buckets, options=plan.options
        )
        await client.close()

    def refused(self, what: str, fault: HeadwaterError, *, expected: tuple[type, ...] = ()) -> None:
        """Note an error; one that says more than "later" must be among the expected."""
        text = f"{what}: {type(fault).__name__}: {fault.message}"
        if isinstance(fault, (RetryLaterError, *expected)):
            self.note(text)
        else:
            self.violated(text)
