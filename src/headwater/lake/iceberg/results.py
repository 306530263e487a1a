"""What a writer hands to the committer: files, and what they stand for."""

from dataclasses import dataclass

from pyiceberg.manifest import DataFile

from headwater.lake.iceberg.data_files import byte_count
from headwater.lake.iceberg.values import file_from_json, file_to_json, packed, unpacked
from headwater.lake.spi import PartitionValues, WriteResult
from headwater.model.type_json import Json, list_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Name files that are to be added, and files that these rely on or replace."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    """Files in whose place the added ones stand."""
    needed: tuple[str, ...] = ()
    """Data files of which added deletes take rows away."""
    deletes: tuple[str, ...] = ()
    """The deletes that held for the removed data files when these were read."""
    on: int | None = None
    """The snapshot in which older rows of changed keys were looked for."""
    seen: tuple[str, ...] = ()
    """The data files in which they were looked for."""

    def to_result(self, *, partition: PartitionValues, bucket: int, rows: int) -> WriteResult:
        """Return it as a result that travels."""
        payload: dict[str, Json] = {
            "added": [file_to_json(file) for file in self.added],
            "removed": list(self.removed),
            "needed": list(self.needed),
            "deletes": list(self.deletes),
            "on": self.on,
            "seen": list(self.seen),
        }
        return WriteResult(
            partition=partition,
            bucket=bucket,
            row_count=rows,
            file_count=len(self.added),
            byte_count=byte_count(self.added),
            payload=packed(payload),
        )


def written_of(result: WriteResult) -> Written:
    """Return what a result names."""
    node = unpacked(result.payload)
    on = node.get("on")
    return Written(
        added=tuple(file_from_json(each) for each in list_of(node, "added")),
        removed=tuple(str(each) for each in list_of(node, "removed")),
        needed=tuple(str(each) for each in list_of(node, "needed")),
        deletes=tuple(str(each) for each in list_of(node, "deletes")),
        on=on if isinstance(on, int) else None,
        seen=tuple(str(each) for each in list_of(node, "seen")),
    )
