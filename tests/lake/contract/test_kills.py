"""A tierer that is killed anywhere leaves a table that is whole, and that others go on with."""

import base64
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.model.types import BigIntType, StringType
from tests.lake.contract.endless import BUCKET

ROOT = Path(__file__).parents[3]
KILLS = 8
PAUSE_S_MAX = 0.4

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]


def killed_on_the_way(table, after_s: float) -> None:
    """Tier in a process until a while after its first round, then kill it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.contract.endless"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    with process:
        process.stdin.write(base64.b64encode(pickle.dumps((table.lake, table.spec))))
        process.stdin.close()
        process.stdout.readline()
        time.sleep(after_s)  # nothing is waited for: it may be at any step then
        process.kill()


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_a_table_is_whole_however_often_its_tierer_is_killed(tables, key):
    chance = random.Random(7)
    table = tables.make({"id": BigIntType(nullable=False), "name": StringType()}, key=key)

    for _ in range(KILLS):
        killed_on_the_way(table, chance.uniform(0, PAUSE_S_MAX))

        end = table.head().boundary.end(BUCKET)
        assert sorted(table.rows()["id"].to_pylist()) == list(range(end))

    table.keeper.remove_orphans(older_than_ms=table.head().committed_ms + 1000)
    assert sorted(table.rows()["id"].to_pylist()) == list(range(end))
    assert end >= KILLS
