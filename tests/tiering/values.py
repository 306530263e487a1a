"""Values that tests of tiering are made of."""

from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import Boundary, LakeBucket, TableIdentity, TieringEpoch
from headwater.model.bucket import OffsetRange
from headwater.model.path import TablePath
from headwater.tiering.plan import Limits, LogsSeen

PATH = TablePath("app", "events")
IDENTITY = TableIdentity("storage", 7)
EPOCH = TieringEpoch(1, 5)
LIMITS = Limits(rows_max=1000)


def bucket(number: int = 0, partition: int | None = None) -> LakeBucket:
    return LakeBucket(partition, number)


def boundary(ranges=None, *, epoch=EPOCH, round_id="round", table=IDENTITY, partitions=None):
    held = {
        key if isinstance(key, LakeBucket) else LakeBucket(None, key): OffsetRange(*offsets)
        for key, offsets in (ranges or {}).items()
    }
    return Boundary(
        table=table, epoch=epoch, round_id=round_id, ranges=held, partitions=partitions or {}
    )


def view(logs, *, is_keyed=False, partitions=None, reported=None) -> LogsSeen:
    def keyed(each):
        return each if isinstance(each, LakeBucket) else LakeBucket(None, each)

    return LogsSeen(
        path=PATH,
        identity=IDENTITY,
        is_keyed=is_keyed,
        logs={keyed(each): OffsetRange(*offsets) for each, offsets in logs.items()},
        partitions=partitions or {},
        reported={keyed(each): end for each, end in (reported or {}).items()},
    )


def snapshot(number: int, held: Boundary | None, *, parent: int | None = None) -> LakeSnapshot:
    return LakeSnapshot(
        snapshot_id=number,
        parent_id=parent,
        committed_ms=0,
        boundary=held,
        row_count=0,
        file_count=0,
        byte_count=0,
    )
