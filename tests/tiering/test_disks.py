"""Disks that are really full, or may only be read: what is told, and that it is made up for."""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import HeadwaterError, LakeUnreachableError
from headwater.lake.lakes import Lakes, open_lake
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import RoundStep, TurnEnded, TurnFailed
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.tiering.world import World, rows

pytestmark = pytest.mark.torture

QUICK = TieringSettings(poll_interval_s=0.01, heartbeat_interval_s=0.02)
OTHER_FORMATS = {"iceberg": "paimon", "paimon": "iceberg"}
DISK_MIB = 8
ROWS = 2000
TEXT_BYTES = 500  # of noise, so that no file of all rows finds room beside a disk half full


@dataclass(frozen=True)
class Disk:
    """Be a disk of a few mebibytes."""

    path: Path

    def fill(self, *, left_bytes: int = 0) -> None:
        """Leave no more than some bytes free."""
        state = os.statvfs(self.path)
        size = max(state.f_bavail * state.f_frsize - left_bytes, 0)
        (self.path / "filler").write_bytes(bytes(size))

    def free(self) -> None:
        (self.path / "filler").unlink()

    def mount_again(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(params=["iceberg", "paimon"])
def lake_format(request) -> str:
    return request.param


@pytest.fixture
def world(hw, disk, lake_format, tmp_path) -> World:
    """Return a storage whose tables of one format go to the disk, and of the other elsewhere."""
    config = {"warehouse": f"{disk.path}/warehouse"}

    def opened(name: str, told: Mapping[str, str]):
        return open_lake(name, config if name == lake_format else told)

    return World(hw, Lakes(opener=opened), lake_format, disk.path)


def large(start: int) -> list[dict[str, object]]:
    noise = np.random.default_rng(start).integers(33, 126, (ROWS, TEXT_BYTES), dtype=np.uint8)
    texts = [each.tobytes().decode() for each in noise]
    return [{"id": start + at, "text": text} for at, text in enumerate(texts)]


async def run_once(world):
    """Tier all tables once, and return what is told of each."""
    heard = []
    service = TieringService(
        world.hw, LocalRunner(world.hw), settings=QUICK, lakes=world.lakes, listener=heard.append
    )
    await service.run_once()
    return {each.path.table: each for each in heard if isinstance(each, TurnEnded | TurnFailed)}


async def two_tables(world, lake_format):
    """Make a table by key that goes to the disk and one that goes elsewhere, both tiered once."""
    other = {"table.datalake.format": OTHER_FORMATS[lake_format]}
    tables = [await world.keyed("t"), await world.table("other", options=other)]
    await tables[0].upsert(large(0))
    await tables[1].append(rows(1))
    await run_once(world)
    await tables[0].upsert(large(ROWS // 2))
    await tables[1].append(rows(2))
    return tables


async def check_trouble(world, tables) -> None:
    """Tier when the disk takes nothing: one table is told of, nothing is half there."""
    head, held = world.head(tables[0]), world.lake_rows(tables[0])
    files = set(world.directory.rglob("*.*"))

    told = await run_once(world)

    assert isinstance(told["other"], TurnEnded)
    assert isinstance(told["t"].fault, LakeUnreachableError)
    assert "free space" in told["t"].fault.hint
    assert world.head(tables[0]) == head
    assert world.lake_rows(tables[0]) == held
    assert set(world.directory.rglob("*.*")) == files


async def check_again(world, tables) -> None:
    """Tier when the disk takes files again: every row is there once."""
    told = await run_once(world)

    assert isinstance(told["t"], TurnEnded)
    for table in tables:
        await world.check(table)


@pytest.mark.parametrize("left_kib", [0, 16, 64, 500])
async def test_a_full_disk_stops_one_table_and_is_made_up_for(world, disk, lake_format, left_kib):
    tables = await two_tables(world, lake_format)
    disk.fill(left_bytes=left_kib * 1024)
    await check_trouble(world, tables)

    disk.free()
    await check_again(world, tables)


async def test_a_disk_that_may_only_be_read_stops_one_table(world, disk, lake_format):
    tables = await two_tables(world, lake_format)
    disk.mount_again("ro")
    await check_trouble(world, tables)

    disk.mount_again("rw")
    await check_again(world, tables)


@pytest.mark.parametrize("trouble", ["full", "read-only"])
async def test_a_round_that_is_written_waits_for_a_disk_that_cannot_take_its_commit(
    world, disk, trouble
):
    table = await world.table()
    await table.append(rows(1))
    await world.tier(table, 1)
    await table.append(rows(2))
    work, pause = await world.paused(table, 2, RoundStep.COMMIT)

    disk.fill() if trouble == "full" else disk.mount_again("ro")
    pause.let_go()
    with pytest.raises(HeadwaterError) as caught:
        await work
    assert caught.value.retriable
    await asyncio.to_thread(disk.free if trouble == "full" else lambda: disk.mount_again("rw"))
    await world.tier(table, 3)

    await world.check(table)


async def test_a_table_is_made_once_there_is_room(world, disk):
    table = await world.table()
    await table.append(rows(1, 2))
    disk.fill()
    told = await run_once(world)
    assert isinstance(told["t"].fault, LakeUnreachableError)

    disk.free()
    told = await run_once(world)

    assert isinstance(told["t"], TurnEnded)
    await world.check(table)
