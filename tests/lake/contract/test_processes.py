"""Commits of several processes stand one after another, and none is lost."""

import base64
import pickle
import subprocess
import sys
from pathlib import Path

from headwater.model.boundary import LakeBucket
from headwater.model.bucket import OffsetRange
from headwater.model.types import BigIntType, StringType
from tests.lake.lake_table import LakeTable

ROOT = Path(__file__).parents[3]
PROCESSES, COMMITS = 3, 5
KINDS = {"log": (), "keyed": ("id",)}


def started(tables: list[LakeTable], numbers: range) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.lake.contract.racing"], stdin=subprocess.PIPE, cwd=ROOT
    )
    process.stdin.write(
        base64.b64encode(pickle.dumps(([(each.lake, each.spec) for each in tables], numbers)))
    )
    process.stdin.close()
    return process


def test_commits_of_several_processes_lose_nothing(tables):
    columns = {"id": BigIntType(nullable=False), "name": StringType()}
    made = [tables.make(columns, key=key) for key in KINDS.values()]
    ranges = [range(at * COMMITS, (at + 1) * COMMITS) for at in range(PROCESSES)]

    racing = [started(made, numbers) for numbers in ranges]
    codes = [process.wait(100) for process in racing]

    assert codes == [0] * PROCESSES
    for table in made:
        check_nothing_is_lost(table, PROCESSES * COMMITS)


def check_nothing_is_lost(table: LakeTable, total: int) -> None:
    assert sorted(table.rows()["id"].to_pylist()) == list(range(total))
    snapshots = table.source.snapshots()
    assert len(snapshots) == total
    assert [each.parent_id for each in snapshots[1:]] == [s.snapshot_id for s in snapshots[:-1]]
    assert table.head().boundary.ranges == {LakeBucket(None, 0): OffsetRange(0, total)}
