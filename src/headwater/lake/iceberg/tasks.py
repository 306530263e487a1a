"""What a writer is told: the table, and the files that may hold older rows of its bucket."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.manifest import DataFile, DataFileContent

from headwater.lake.iceberg.values import (
    Place,
    file_from_json,
    file_to_json,
    packed,
    place_from_json,
    unpacked,
)
from headwater.lake.spi import PartitionValues, WriteTask
from headwater.model.type_json import Json, list_of, object_of

PATH_FIELD_ID = 2147483546
"""The id of the column of a file of deletes that names data files."""


class HeldFile(NamedTuple):
    """Name a live data file with the files of deletes that hold for it."""

    file: DataFile
    deletes: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """Describe the table, and what the lake holds of the bucket."""

    place: Place
    held: tuple[HeldFile, ...] = ()
    on: int | None = None
    """The snapshot whose files these are."""

    def to_task(self, *, partition: PartitionValues, bucket: int) -> WriteTask:
        """Return it as a task that travels."""
        return WriteTask(
            partition=partition,
            bucket=bucket,
            payload=packed(
                {
                    "place": self.place.to_json(),
                    "on": self.on,
                    "held": held_to_json(self.held, keys=self.place.schema.identifier_field_ids),
                }
            ),
        )


def task_of(task: WriteTask) -> BucketTask:
    """Return what a task says."""
    node = unpacked(task.payload)
    on = node.get("on")
    return BucketTask(
        place_from_json(node.get("place")),
        held_from_json(node),
        on if isinstance(on, int) else None,
    )


def held_to_json(held: Sequence[HeldFile], *, keys: Collection[int] = ()) -> Json:
    """Write live files in a form that travels, with the bounds of some fields."""
    bounded = frozenset((PATH_FIELD_ID, *keys))
    return [
        {
            "file": file_to_json(file, bounded=bounded),
            "deletes": [file_to_json(each, bounded=bounded) for each in deletes],
        }
        for file, deletes in held
    ]


def held_from_json(node: Mapping[str, Json]) -> tuple[HeldFile, ...]:
    """Read live files from the node that has them as `held`."""
    found = [object_of(each, what="held file") for each in list_of(node, "held")]
    return tuple(
        HeldFile(
            file_from_json(each.get("file")),
            tuple(file_from_json(delete) for delete in list_of(each, "deletes")),
        )
        for each in found
    )


def scoped_path(file: DataFile) -> str | None:
    """Return the one data file that a file of deletes is about; None if there may be several."""
    lower = (file.lower_bounds or {}).get(PATH_FIELD_ID)
    upper = (file.upper_bounds or {}).get(PATH_FIELD_ID)
    is_one = lower is not None and lower == upper
    is_positions = file.content == DataFileContent.POSITION_DELETES
    return lower.decode() if is_one and is_positions and lower is not None else None
