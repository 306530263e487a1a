"""Tierers that are killed -9 before every step of a round: nothing is lost, nothing comes twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from headwater.tiering.progress import RoundStep
from tests.engines.spark.tiering.dying import Dying
from tests.lake.formats import config_of
from tests.tiering.world import rows

ROOT = str(Path(__file__).parents[4])
WITHIN_S = 300  # sessions take their time where others use the machine as well
# In an order in which each is reached: a claim follows a turn that came to nothing, and only a
# snapshot that was not reported is adopted.
STEPS = [
    RoundStep.TABLE,
    RoundStep.LAKE_TABLE,
    RoundStep.HEAD,
    RoundStep.LOGS,
    RoundStep.PLAN,
    RoundStep.CLAIM,
    RoundStep.WRITE,
    RoundStep.PREPARE,
    RoundStep.COMMIT,
    RoundStep.REPORT,
    RoundStep.ADOPT,
]
SHORT = [("iceberg", "log"), ("paimon", "keyed")]
LONG = [("iceberg", "keyed"), ("paimon", "log")]


def test_every_step_has_its_kill():
    assert set(STEPS) == set(RoundStep)


@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize(
    ("lake_format", "kind"),
    [*SHORT, *(pytest.param(*each, marks=pytest.mark.torture) for each in LONG)],
)
async def test_a_tierer_may_die_before_any_step(world, hw, kind, tmp_path):
    table = await (world.keyed() if kind == "keyed" else world.table())
    write = table.upsert if kind == "keyed" else table.append
    numbers = count()
    lake = config_of(world.format, tmp_path / "lake")
    dying = Dying(hw.address, "t" if kind == "log" else "k", world.format, 0, None, lake)

    for turn, step in enumerate(STEPS, start=1):
        await write(rows(*(next(numbers) for _ in range(10))))
        assert await replace(dying, turn=turn, step=step).run() == -signal.SIGKILL, step
    assert await replace(dying, turn=len(STEPS) + 1).run() == 0

    head = await world.check(table)
    assert world.lake_rows(table, head.snapshot_id).total() == next(numbers)


@pytest.mark.torture
@pytest.mark.timeout(WITHIN_S)
@pytest.mark.parametrize("kind", ["log", "keyed"])
@pytest.mark.parametrize("step", STEPS)
async def test_what_a_dead_tierer_left_is_brought_to_an_end(world, hw, kind, step, tmp_path):
    table = await (world.keyed() if kind == "keyed" else world.table())
    write = table.upsert if kind == "keyed" else table.append
    lake = config_of(world.format, tmp_path / "lake")
    dying = Dying(hw.address, "t" if kind == "log" else "k", world.format, 0, None, lake)

    for turn in range(1, 9, 4):
        await write(rows(*range(10 * turn, 10 * turn + 10)))
        await replace(dying, turn=turn, step=step).run()
        await write(rows(*range(10 * turn, 10 * turn + 15), text=f"{turn}-"))
        await replace(dying, turn=turn + 1, step=step).run()
        assert await replace(dying, turn=turn + 2).run() == 0

        await world.check(table)


@pytest.mark.spark
@pytest.mark.timeout(WITHIN_S + 60)
@pytest.mark.parametrize("lake_format", ["iceberg"])
async def test_a_driver_of_spark_may_die_with_all_files_written(world, hw, tmp_path):
    table = await world.table()
    await table.append(rows(*range(100)))
    lake = config_of(world.format, tmp_path / "lake")
    arguments = (hw.address, "t", world.format, RoundStep.COMMIT.value, json.dumps(lake))

    code = await asyncio.to_thread(_driven, arguments)

    assert code == -signal.SIGKILL
    assert world.head(table) is None
    assert await Dying(hw.address, "t", world.format, 2, None, lake).run() == 0
    await world.check(table)
    assert world.lake_rows(table).total() == 100


def _driven(arguments) -> int:
    """Run a driver until it dies, and leave nothing of its session behind."""
    command = [sys.executable, "-m", "tests.engines.spark.tiering.dying_driver", *arguments]
    environment = os.environ | {"PYTHONPATH": ROOT}
    # Where this process talks to Spark over Connect, the driver is still one of its own.
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)
    with subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True) as process:
        try:
            return process.wait(WITHIN_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
