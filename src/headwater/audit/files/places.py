"""Where the buckets of a data directory lie."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from headwater.model.bucket import TableBucket
from headwater.store.disk import Disk

DROPPED = "dropped"
_PARTITION = re.compile(r"p(\d+)")


@dataclass(frozen=True, slots=True)
class Place:
    """Hold the directory of a bucket."""

    bucket: TableBucket
    path: str


@dataclass(frozen=True, slots=True)
class Stray:
    """Hold a file or directory that is in the way of none, and belongs to no table."""

    path: str


def places(disk: Disk) -> Iterator[Place | Stray]:
    """Yield the buckets on a disk, and whatever else lies between them."""
    for name in disk.listdir(""):
        inside = _listed(disk, name)
        if not name.isdecimal() or inside is None:
            yield Stray(name)
        else:
            for each in inside:
                yield from _of_table(disk, int(name), f"{name}/{each}")


def _of_table(disk: Disk, table_id: int, path: str) -> Iterator[Place | Stray]:
    name, inside = path.rpartition("/")[2], _listed(disk, path)
    partition = _PARTITION.fullmatch(name)
    if inside is None or not (partition or name.isdecimal()):
        yield Stray(path)
    elif partition is None:
        yield Place(TableBucket(table_id, int(name)), path)
    else:
        for each in inside:
            yield _of_partition(disk, table_id, int(partition[1]), f"{path}/{each}")


def _of_partition(disk: Disk, table_id: int, partition_id: int, path: str) -> Place | Stray:
    name = path.rpartition("/")[2]
    if not name.isdecimal() or _listed(disk, path) is None:
        return Stray(path)
    return Place(TableBucket(table_id, int(name), partition_id), path)


def _listed(disk: Disk, path: str) -> list[str] | None:
    """Return the names in a directory, or None for a file."""
    try:
        return disk.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
