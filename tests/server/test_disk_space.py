"""Rows are refused while the disk is nearly full, and taken as soon as it is not."""

from pathlib import Path

import pytest

import headwater
from headwater.config.client import ClientSettings
from headwater.config.server import ServerSettings
from headwater.errors import RetryLaterError
from headwater.server.disk_space import LOOK_INTERVAL_S, DiskSpace, free_bytes


class World:
    """A disk and a clock in the hands of a test."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.now = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        return self.now

    def look(self, directory: Path) -> int:
        self.looks += 1
        if self.free < 0:
            raise OSError("the disk is gone")
        return self.free

    def space(self, free_bytes_min: int = 100) -> DiskSpace:
        return DiskSpace(Path(), free_bytes_min=free_bytes_min, clock=self, look=self.look)


def test_rows_are_refused_below_the_limit_and_taken_above_it():
    world = World(free=99)
    space = world.space()

    with pytest.raises(RetryLaterError, match="99 bytes are free"):
        space.refuse_if_full()
    world.free, world.now = 100, LOOK_INTERVAL_S

    space.refuse_if_full()


def test_the_disk_is_not_asked_for_every_row():
    world = World(free=1000)
    space = world.space()

    for _ in range(10):
        space.refuse_if_full()

    assert world.looks == 1


def test_without_a_limit_nothing_is_refused():
    world = World(free=0)

    world.space(free_bytes_min=0).refuse_if_full()

    assert not world.looks


def test_a_disk_that_cannot_be_asked_refuses_nothing():
    World(free=-1).space().refuse_if_full()


def test_a_real_disk_tells_what_is_free(tmp_path):
    assert free_bytes(tmp_path) > 0


def test_missing_rows_are_not_inserted_by_lookups_on_a_full_disk(tmp_path):
    columns = {"name": "STRING", "number": "BIGINT"}
    with headwater.open(tmp_path) as storage:
        storage.create_table("names", columns, primary_key="name", auto_increment="number")
    full = ServerSettings(disk_free_bytes_min=1 << 60)
    patience = ClientSettings(deadline_s=0.5)

    with headwater.open(tmp_path, server_settings=full, settings=patience) as storage:
        table = storage.table("names")
        with pytest.raises(RetryLaterError):
            table.lookup([{"name": "a"}], insert_missing=True)

        assert table.lookup([{"name": "a"}]).num_rows == 0
