"""Where in its segment an offset begins at which a log is to be cut."""

from dataclasses import dataclass

from headwater.audit.files.repairable import Repairable
from headwater.audit.files.segment_walk import walk
from headwater.audit.files.stream import Stream
from headwater.errors import RequestError
from headwater.log.mark import Mark
from headwater.log.names import SegmentName, segment_names
from headwater.rows.log_batch import BatchHeader
from headwater.store.disk import Disk


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPlace:
    """Hold the segment that ends at an offset once it is cut, or None if none is left."""

    offset: int
    segment: SegmentName | None = None
    position: int = 0
    size: int = 0


def find_place(disk: Disk, bucket: Repairable, offset: int) -> CutPlace:
    """Return where an offset begins; one inside of a batch is refused."""
    start_offset = bucket.log.start_offset
    kept = [name for name in segment_names(bucket.names) if name.base_offset < offset]
    if not kept or offset <= start_offset:
        return CutPlace(offset=offset)
    name = kept[-1]
    stream = Stream(disk.open(f"{bucket.path}/{name}"))
    search = _Search(offset)
    walk(stream, start=Mark(name.base_offset, 0, 0), visit=search.take)
    return CutPlace(offset=offset, segment=name, position=search.position, size=stream.size)


class _Search:
    """Add up the batches before an offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self.position = 0

    def take(self, header: BatchHeader, _: memoryview) -> None:
        if header.end_offset <= self._offset:
            self.position += header.size
        elif header.base_offset < self._offset:
            raise RequestError(
                f"Offset {self._offset} is inside of a batch, which is kept or cut as a whole.",
                hint=f"Cut the log at {header.base_offset} or at {header.end_offset}.",
            )
