"""Take a moment of a running storage, and read its files from it.

On the loop a moment is taken without waiting: the catalog's bytes, and of each bucket that changed
which segments it has and how much of the last one is durable. Catalog and logs are so from the
same instant. Files are read afterwards, in a thread: their bytes up to the lengths of the moment
never change. A file that was replaced or removed meanwhile makes the moment void; the next is taken
soon.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import CorruptFileError, StorageError
from headwater.kv.store import Snapshot, file_name
from headwater.log.log import Log
from headwater.log.segment import CHECKPOINT, LogShape, Mark, Segment, index_name
from headwater.log.small_files import decode_checkpoint
from headwater.model.bucket import TableBucket
from headwater.remote.plan import MomentFile, MomentFolder, RemoteCut
from headwater.remote.shipper import MovedOnError, Readable
from headwater.remote.tree import CATALOG_FOLDER, FolderEnds
from headwater.rows.row_bytes import PADDING
from headwater.server.catalog.catalog import CATALOG_NAME, ServerCatalog
from headwater.server.keyed_tablets import STATE_DIRECTORY
from headwater.server.tablets import Tablets, directory_of
from headwater.store.disk import Disk
from headwater.tablet.log_tablet import LogTablet

NewestSnapshot = tuple[int, Snapshot] | None


@dataclass(frozen=True, slots=True)
class BucketMoment:
    """What a bucket is made of at a moment."""

    log: Log
    shape: LogShape
    active: Segment
    tail: Mark
    checkpoints: int
    state: NewestSnapshot
    incarnation: int

    @property
    def log_bytes(self) -> int:
        """Return the bytes of the log that are durable."""
        before = sum(each.size for each in self.shape.segments if each is not self.active)
        return before + self.tail.position

    def is_same(self, other: "BucketMoment | None") -> bool:
        """Tell whether nothing happened in between."""
        return (
            other is not None
            and self.shape is other.shape
            and self.tail == other.tail
            and self.checkpoints == other.checkpoints
            and (self.state and self.state[0]) == (other.state and other.state[0])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What changed in a storage since the last moment that was shipped."""

    at_ms: int
    changes: int
    serial: int
    catalog: bytes | None
    buckets: Mapping[TableBucket, BucketMoment]
    dropped: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to ship."""
        return self.catalog is None and not self.buckets and not self.dropped


@dataclass(slots=True)
class Shipped:
    """What was shipped last, to tell what changed."""

    changes: int = -1
    serial: int = 0
    buckets: dict[TableBucket, BucketMoment] = field(default_factory=dict)

    def note(self, moment: Moment) -> None:
        """Remember a moment that is in the remote storage."""
        self.changes, self.serial = moment.changes, moment.serial
        self.buckets.update(moment.buckets)


def bucket_moment(tablet: LogTablet, state: NewestSnapshot) -> BucketMoment | None:
    """Look at a bucket; None while its segments are being changed.

    The state was looked at before, so that the log is not shorter than it.
    """
    log = tablet.log
    checkpoints = log.checkpoint_count
    active, tail = log.durable
    shape = log.shape
    if active not in shape.segments:
        return None
    incarnation = log.lineage.writer_before(tail.offset)
    return BucketMoment(log, shape, active, tail, checkpoints, state, incarnation)


def take_moment(
    catalog: ServerCatalog,
    tablets: Tablets,
    shipped: Shipped,
    *,
    held: frozenset[str],
    now_ms: int,
) -> Moment:
    """Note what changed; on the loop, and without waiting for anything but the catalog."""
    keyed = dict(tablets.keyed.all_open())
    changed: dict[TableBucket, BucketMoment] = {}
    for bucket, tablet in tablets.all_open():
        upkeep = keyed.get(bucket)
        state = None if upkeep is None else upkeep.upkeep.newest_snapshot
        moment = bucket_moment(tablet, state)
        if moment is not None and not moment.is_same(shipped.buckets.get(bucket)):
            changed[bucket] = moment
    known = {directory_of(bucket) for bucket in tablets.known()}
    dropped = () if held <= known else tuple(sorted(held - known))
    is_changed = catalog.changes != shipped.changes
    serial, content = catalog.numbered_copy() if is_changed else (shipped.serial, None)
    return Moment(
        at_ms=now_ms,
        changes=catalog.changes,
        serial=serial,
        catalog=content,
        buckets=changed,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True)
class _Content:
    """Bytes that were read already."""

    content: bytes

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position."""
        return self.content[position : position + length]


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A file on the disk, whose errors are not those of the remote storage."""

    file: Readable
    path: str

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes at a position."""
        try:
            return self.file.read(position, length)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be read: {error}.") from error


class MomentFiles:
    """The files of a moment: which there are, and their bytes."""

    def __init__(self, disk: Disk, moment: Moment, *, process: str) -> None:
        self._disk = disk
        self._moment = moment
        self._process = process
        self._contents: dict[tuple[str, str], bytes] = {}
        self._segments: dict[tuple[str, str], tuple[Log, Segment]] = {}

    def cut(self) -> RemoteCut:
        """List the files, reading those that are small and replaced often."""
        moment = self._moment
        folders = {
            directory_of(bucket): self._bucket(directory_of(bucket), each)
            for bucket, each in moment.buckets.items()
        }
        if moment.catalog is not None:
            self._contents[CATALOG_FOLDER, CATALOG_NAME] = moment.catalog
            file = MomentFile(len(moment.catalog), str(moment.serial))
            folders[CATALOG_FOLDER] = MomentFolder(FolderEnds(), {CATALOG_NAME: file})
        return RemoteCut(
            at_ms=moment.at_ms, serial=moment.serial, folders=folders, dropped=moment.dropped
        )

    def open(self, folder: str, name: str) -> Readable:
        """Open a file of the moment."""
        if (content := self._contents.get((folder, name))) is not None:
            return _Content(content)
        path = f"{folder}/{name}"
        try:
            file = self._disk.open(path)
            if (held := self._segments.get((folder, name))) is not None:
                log, segment = held
                if not log.has_segment(segment):
                    raise MovedOnError
            return _Guarded(file, path)
        except FileNotFoundError:
            raise MovedOnError from None
        except OSError as error:
            raise StorageError(f"{path} cannot be opened: {error}.") from error

    def _bucket(self, folder: str, bucket: BucketMoment) -> MomentFolder:
        files: dict[str, MomentFile] = {}
        for segment in bucket.shape.segments:
            is_active = segment is bucket.active
            size = bucket.tail.position if is_active else segment.size
            if size:
                name = segment.path.rpartition("/")[2]
                files[name] = MomentFile(size, identity=segment)
                self._segments[folder, name] = (bucket.log, segment)
            if is_active:
                break
            if segment.is_indexed and not segment.is_damaged:
                self._add_index(files, folder, segment)
        self._add_checkpoint(files, folder, bucket)
        if bucket.state is not None:
            self._add_state(files, folder, *bucket.state)
        start, end = bucket.shape.start_offset, bucket.tail.offset
        return MomentFolder(FolderEnds(start, end, bucket.incarnation), files)

    def _add_index(self, files: dict[str, MomentFile], folder: str, segment: Segment) -> None:
        name = index_name(segment.base_offset)
        size = self._size(folder, name)
        files[name] = MomentFile(size, f"{segment.size}")

    def _add_checkpoint(
        self, files: dict[str, MomentFile], folder: str, bucket: BucketMoment
    ) -> None:
        """Add the checkpoint, unless there is none; it must not know more than the moment."""
        try:
            file = self._disk.open(f"{folder}/{CHECKPOINT}")
            content = file.read(0, file.size)
            checkpoint = decode_checkpoint(content)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{folder}/{CHECKPOINT} cannot be read: {error}.") from error
        except CorruptFileError:
            return  # Recovery does without it as well.
        bases = {segment.base_offset for segment in bucket.shape.segments}
        if (
            checkpoint.start_offset != bucket.shape.start_offset
            or checkpoint.recovery_offset > bucket.tail.offset
            or checkpoint.segment_base not in bases
        ):
            raise MovedOnError
        self._contents[folder, CHECKPOINT] = content
        files[CHECKPOINT] = MomentFile(len(content), f"{self._process}-{bucket.checkpoints}")

    def _add_state(
        self, files: dict[str, MomentFile], folder: str, serial: int, snapshot: Snapshot
    ) -> None:
        name = f"{STATE_DIRECTORY}/{file_name('snapshot', serial)}"
        files[name] = MomentFile(self._size(folder, name), f"{snapshot.offset}-{snapshot.seed}")
        for each in snapshot.segments:
            name = f"{STATE_DIRECTORY}/{file_name('segment', each.serial)}"
            files[name] = MomentFile(each.end + PADDING, f"{each.crc:08x}")

    def _size(self, folder: str, name: str) -> int:
        try:
            return self._disk.open(f"{folder}/{name}").size
        except FileNotFoundError:
            raise MovedOnError from None
