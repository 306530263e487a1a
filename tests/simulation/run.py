"""One run: what a seed says happens, and what was found wrong at its end."""

import asyncio
import gc
import logging
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headwater.log import state
from headwater.runtime.clock import chance_from
from tests.simulation.actors.auditor import audit_again_and_again, audit_image
from tests.simulation.actors.readers import (
    come_back,
    follow_log,
    look_up_keys,
    scan_keys,
    scan_log,
)
from tests.simulation.actors.tierers import Tierers
from tests.simulation.actors.writers import append_rows, change_keys
from tests.simulation.checking import check, until_tiered
from tests.simulation.faults import Fates
from tests.simulation.loop import PROCESS, StuckError
from tests.simulation.threads import Locks
from tests.simulation.world import World

MEMORY = Path("/dev/shm")
WRITERS_WITHIN_S = 600.0
QUIET_S = 5.0
READERS = {
    "tail": follow_log,
    "scanner": scan_log,
    "lookups": look_up_keys,
    "key-scanner": scan_keys,
    "returner": come_back,
    "auditor": audit_again_and_again,
}


@dataclass
class Outcome:
    """Hold what came of a seed."""

    seed: int
    violations: list[str]
    trace: list[str] = field(repr=False, default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    """What was done in spite of all."""
    contests: Counter[str] = field(default_factory=Counter)
    """How often somebody was not let commit to the lake, and why."""
    crashes: int = 0
    steps: int = 0


def run_seed(seed: int) -> Outcome:
    """Run a seed to its end; the same seed gives the same trace."""
    place = MEMORY if MEMORY.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="headwater-sim-", dir=place))
    try:
        with _without_garbage():
            return _outcome(seed, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _outcome(seed: int, root: Path) -> Outcome:
    world = World(seed, root)
    with (
        chance_from(world.chance("product")),
        world.lake.in_place(),
        _listening(world),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(state, "threading", Locks)
        _run(world)
    return Outcome(
        seed,
        world.violations,
        world.trace,
        faults=world.faults,
        figures=world.figures,
        contests=world.lake.contests,
        crashes=world.machine.crashes,
        steps=world.loop.steps,
    )


def _run(world: World) -> None:
    loop = world.loop
    try:
        loop.run_until_complete(loop.start_in(loop.process("story"), story(world)))
    except StuckError as fault:
        world.violated(str(fault))
    finally:
        for complaint in loop.untold():
            world.violated(complaint)
        world.is_over = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop.bury()
        world.machine.bury()
        loop.close()


async def story(world: World) -> None:
    """Tell what happens.

    1. A server starts, and tables are made. 2. Writers write, readers read and tierers tier,
    while things go wrong. 3. All is healed. 4. When the writers are done and those who sleep have
    woken up, the server loses power once more. 5. The tierers catch up. 6. When all are gone, what
    must be true is checked.
    """
    await world.machine.start()
    await world.create_tables()
    writers = _start(world, "writer", append_rows, world.plan.log_writers)
    writers += _start(world, "keeper", change_keys, world.plan.key_writers)
    readers = [world.start(name, work(world, name)) for name, work in READERS.items()]
    tierers = Tierers(world, 2) if world.plan.has_lake else None
    clients = [process for process, _ in (*writers, *readers)]
    fates = Fates(world, tierers, clients)
    await fates.run()
    await asyncio.wait([task for _, task in writers], timeout=WRITERS_WITHIN_S)
    for process, task in writers:
        if not task.done():
            world.violated(f"{process.name} does not come to an end")
    for process in clients:
        process.kill()
    await fates.awakening()
    await world.clock.sleep(QUIET_S)
    world.machine.crash()
    audit_image(world, world.machine.disk)
    await fates.heal(for_good=True)
    if tierers is not None:
        await until_tiered(world)
    for process, _ in tierers.running if tierers else ():
        process.kill()
    _, checking = world.start("checker", check(world))
    await checking


def _start(world: World, kind: str, work, count: int):
    names = [f"{kind}-{number}" for number in range(1, count + 1)]
    return [world.start(name, work(world, name)) for name in names]


@contextmanager
def _without_garbage() -> Iterator[None]:
    """Collect garbage at the end only, and say nothing of what the dead do when they are freed."""
    gc.disable()
    gc.freeze()
    told, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
        sys.unraisablehook = told
        gc.unfreeze()
        gc.enable()


class _Listener(logging.Handler):
    """Note the events of the product; one that tells of a crash inside of it is a finding."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if not PROCESS.get().is_alive or self._world.is_over:
            return
        fields = getattr(record, "fields", {})
        text = f"{record.getMessage()} {fields}"
        if record.exc_info:
            self._world.violated(f"{text}: {record.exc_info[1]!r}")
        else:
            self._world.figures["cuts"] += record.getMessage() == "expired"
            self._world.note(text)


@contextmanager
def _listening(world: World) -> Iterator[None]:
    logger, handler = logging.getLogger("headwater"), _Listener(world)
    before = (logger.level, logger.propagate, logger.handlers[:])
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers[:] = before[1:]
