"""Commits of several processes stand one after another, and none is lost."""

import base64
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.types import BigIntType, StringType

ROOT = Path(__file__).parents[3]
PROCESSES, COMMITS = 3, 5


def started(table, numbers: range) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.contract.racing"], stdin=subprocess.PIPE, cwd=ROOT
    )
    process.stdin.write(base64.b64encode(pickle.dumps((table.lake, table.spec, numbers))))
    process.stdin.close()
    return process


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_commits_of_several_processes_lose_nothing(tables, key):
    table = tables.make({"id": BigIntType(nullable=False), "name": StringType()}, key=key)
    ranges = [range(at * COMMITS, (at + 1) * COMMITS) for at in range(PROCESSES)]

    racing = [started(table, numbers) for numbers in ranges]
    codes = [process.wait(100) for process in racing]

    total = PROCESSES * COMMITS
    assert codes == [0] * PROCESSES
    assert sorted(table.rows()["id"].to_pylist()) == list(range(total))
    snapshots = table.source.snapshots()
    assert len(snapshots) == total
    assert [each.parent_id for each in snapshots[1:]] == [s.snapshot_id for s in snapshots[:-1]]
    assert table.head().boundary.ranges == {LakeBucket(None, 0): OffsetRange(0, total)}
