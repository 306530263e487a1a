"""The tablets of a server: opened on first use, dropped with their table."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from headwater.config.options import LOG_SEGMENT_BYTES
from headwater.config.server import ServerSettings
from headwater.config.table_options import TableOptions
from headwater.errors import BucketMissingError, HeadwaterError, RecordTooLargeError
from headwater.kv.state import IndexRoom, any_room
from headwater.kv.store import KvSettings
from headwater.log.log import Log
from headwater.log.retention import LogSettings
from headwater.metrics.tallies import WriteTally
from headwater.model.arrow import arrow_schema
from headwater.model.bucket import TableBucket
from headwater.model.schema import Schema
from headwater.rows.admission import AdmissionLimits, Expectation, Inspected, inspect
from headwater.rows.join import Joiner
from headwater.rows.log_batch import BatchHeader
from headwater.rows.message import arrow_codec
from headwater.rows.projection import Projection
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import shared
from headwater.server.catalog.catalog import ServerCatalog
from headwater.server.keyed_tablets import KeyedTablets
from headwater.server.memory import Budget
from headwater.store.disk import Disk
from headwater.store.local import make_durably
from headwater.tablet.group_commit import Answered
from headwater.tablet.log_tablet import BATCHES_MAX, LogTablet
from headwater.tablet.pk_tablet import PkTablet

_events = Events("tablets")
WhenBucketShipped = Callable[[TableBucket, int, Answered], None]
"""Calls back once everything of a bucket before an offset is in remote storage."""
PROJECTIONS_KEPT = 1024
SCHEMAS_KEPT = 1024


class TableAdmission:
    """The limits and checks of one append request to a table."""

    def __init__(
        self,
        expectation: Callable[[int], Expectation],
        *,
        limits: AdmissionLimits,
        decoded_bytes_max: int,
        decoding: Budget,
    ) -> None:
        self._expectation = expectation
        self._limits = limits
        self._decoding = decoding
        self._batches_left = BATCHES_MAX
        self._bytes_left = self._bytes_max = decoded_bytes_max

    def inspect(self, batch: memoryview, header: BatchHeader) -> Inspected:
        """Check everything but the values of a batch."""
        expected = self._expectation(header.schema_id)
        return inspect(batch, header, expected=expected, limits=self._limits, append_only=True)

    def take(self, batches: int, decoded_bytes: int) -> None:
        """Count batches against the limits of the request, for all its buckets together."""
        self._batches_left -= batches
        self._bytes_left -= decoded_bytes
        if self._batches_left < 0:
            raise RecordTooLargeError(
                f"A request has more than {BATCHES_MAX} record batches.",
                hint="Put more rows into a batch.",
            )
        if self._bytes_left < 0:
            raise RecordTooLargeError(
                f"The record batches of a request take more than {self._bytes_max} bytes after "
                "decompression.",
                hint="Send fewer rows in one request.",
            )

    def room(self, decoded_bytes: int) -> AbstractAsyncContextManager[None]:
        """Wait for memory to decode values, from a budget that all requests share."""
        return self._decoding.room(decoded_bytes)


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Limits of what is kept of a bucket."""

    log: LogSettings = field(default_factory=LogSettings)
    kv: KvSettings = field(default_factory=KvSettings)


@dataclass(frozen=True, slots=True)
class LogStore:
    """Where logs are; the disk is the directory, through the only interface to files."""

    directory: Path
    disk: Disk
    settings: StorageSettings


class Tablets:
    """Open, find and drop the tablets below one directory.

    A bucket is in `<table id>/<bucket>`, or in `<table id>/p<partition id>/<bucket>`.
    """

    def __init__(  # noqa: PLR0913 - one argument per part
        self,
        store: LogStore,
        catalog: ServerCatalog,
        *,
        executor: Executor,
        settings: ServerSettings,
        clock: Clock,
        tally: WriteTally | None = None,
        on_drop: Callable[[TableBucket], None] = lambda _: None,
        index_room: IndexRoom = any_room,
        when_shipped: WhenBucketShipped | None = None,
    ) -> None:
        """Keep tablets; `on_drop` ends what others have open of a bucket, and its files with it."""
        self._when_shipped = when_shipped
        self._store = store
        self._on_drop = on_drop
        self._tally = tally or WriteTally()
        self._directory = store.directory
        self._trash = store.directory / "dropped"
        self._catalog = catalog
        self._executor = executor
        self._settings = settings
        self._clock = clock
        self._open: dict[TableBucket, LogTablet] = {}
        self._opening: dict[TableBucket, asyncio.Task[LogTablet]] = {}
        # Why buckets could not be opened last time.
        self.unopenable: dict[TableBucket, str] = {}
        self._limits = AdmissionLimits(
            batch_bytes_max=settings.batch_bytes_max, decoded_bytes_max=settings.decoded_bytes_max
        )
        # Separate from the budget of requests: those hold some of it while they wait for this one.
        self._decoding = Budget(settings.decoded_bytes_max)
        self.keyed = KeyedTablets(
            store.disk,
            catalog,
            executor=executor,
            clock=clock,
            settings=store.settings.kv,
            index_room=index_room,
        )
        self._expectation = lru_cache(SCHEMAS_KEPT)(self._make_expectation)
        self._projection = lru_cache(PROJECTIONS_KEPT)(self._make_projection)

    # ---- finding

    async def tablet(self, bucket: TableBucket) -> LogTablet:
        """Return the tablet of a bucket, opening it on first use."""
        tablet = self._open.get(bucket)
        if tablet is not None:
            return tablet
        self._check_exists(bucket)
        opening = self._opening.get(bucket)
        if opening is None:
            opening = asyncio.get_running_loop().create_task(self._open_tablet(bucket))
            self._opening[bucket] = opening
        return await shared(opening)

    def opened(self, bucket: TableBucket) -> LogTablet | None:
        """Return the tablet of a bucket if it is open."""
        return self._open.get(bucket)

    async def pk_tablet(self, bucket: TableBucket) -> PkTablet:
        """Return the primary-key tablet of a bucket."""
        await self.tablet(bucket)
        return self.keyed.find(bucket)

    def all_open(self) -> tuple[tuple[TableBucket, LogTablet], ...]:
        """List the open tablets."""
        return tuple(self._open.items())

    def _check_exists(self, bucket: TableBucket) -> None:
        table = self._catalog.tables.by_id(bucket.table_id)
        if not 0 <= bucket.bucket < (table.descriptor.bucket_count or 1):
            raise BucketMissingError(f"{table.path} has no bucket {bucket.bucket}.")
        if table.descriptor.is_partitioned != (bucket.partition_id is not None):
            kind = "partitioned" if table.descriptor.is_partitioned else "not partitioned"
            raise BucketMissingError(f"{table.path} is {kind}.")
        if bucket.partition_id is None:
            return
        if self._catalog.partitions.by_id(bucket.partition_id).table_id != bucket.table_id:
            raise BucketMissingError(f"{table.path} has no partition {bucket.partition_id}.")

    async def _open_tablet(self, bucket: TableBucket) -> LogTablet:
        try:
            loop = asyncio.get_running_loop()
            log = await loop.run_in_executor(self._executor, self._open_log, bucket)
            for fault in log.faults:
                _events.error("log damaged", bucket=str(bucket), fault=fault)
            shipped = self._when_shipped
            tablet = LogTablet(
                log,
                executor=self._executor,
                clock=self._clock,
                tally=self._tally,
                when_shipped=None if shipped is None else partial(shipped, bucket),
            )
            await self.keyed.open(bucket, tablet, directory_of(bucket))
            log.limit_segments(self._segment_bytes_max(bucket.table_id))
            self._open[bucket] = tablet
            self.unopenable.pop(bucket, None)
            return tablet
        except (HeadwaterError, OSError) as fault:
            self.unopenable[bucket] = str(fault)
            raise
        finally:
            del self._opening[bucket]

    def _open_log(self, bucket: TableBucket) -> Log:
        store = self._store
        return Log.open(
            store.disk,
            directory_of(bucket),
            settings=store.settings.log,
            clock=self._catalog.time,
            incarnation=self._catalog.incarnation,
        )

    def is_touched(self, partition_id: int) -> bool:
        """Tell whether a bucket of a partition was ever opened."""
        return any(bucket.partition_id == partition_id for bucket in self.known())

    def has_rows(self, partition_id: int) -> bool:
        """Tell whether a partition has, or may have, rows."""
        open_now = self._open.items()
        return any(
            bucket.partition_id == partition_id and tablet.log.end_offset > 0
            for bucket, tablet in open_now
        ) or any(
            bucket.partition_id == partition_id for bucket in (*self._opening, *self.unopenable)
        )

    def apply_options(self, table_id: int) -> None:
        """Let open tablets of a table follow its options, after these were altered."""
        segment_bytes_max = self._segment_bytes_max(table_id)
        for bucket, tablet in self._open.items():
            if bucket.table_id == table_id:
                tablet.log.limit_segments(segment_bytes_max)

    def _segment_bytes_max(self, table_id: int) -> int:
        properties = self._catalog.tables.by_id(table_id).descriptor.properties
        return LOG_SEGMENT_BYTES.of(properties) or self._store.settings.log.segment_bytes_max

    # ---- what writes and reads need to know of a table

    def admission_of(self, table_id: int) -> TableAdmission:
        """Make the checks that every batch of one request for a table must pass."""
        return TableAdmission(
            partial(self._expectation, table_id),
            limits=self._limits,
            decoded_bytes_max=self._settings.request_decoded_bytes_max,
            decoding=self._decoding,
        )

    def schemas(self, table_id: int) -> Callable[[int], Schema]:
        """Make a function from schema id to schema."""
        return partial(self._catalog.tables.schema, table_id)

    def projections(
        self, table_id: int, column_ids: tuple[int, ...]
    ) -> Callable[[int], Projection]:
        """Make a function from schema id to the projection on these columns."""
        return partial(self._projection, table_id, column_ids)

    def joiner(self, table_id: int) -> Joiner:
        """Make the joiner of batches of a table."""
        options = TableOptions.of(self._catalog.tables.by_id(table_id).descriptor.properties)
        codec = arrow_codec(options.compression, zstd_level=options.compression_zstd_level)
        return Joiner(self.schemas(table_id), codec)

    def _make_expectation(self, table_id: int, schema_id: int) -> Expectation:
        return Expectation.of(arrow_schema(self._catalog.tables.schema(table_id, schema_id)))

    def _make_projection(
        self, table_id: int, column_ids: tuple[int, ...], schema_id: int
    ) -> Projection:
        schemas = self._catalog.tables.schemas(table_id)
        # A later version overwrites an earlier one, so a column has its latest name.
        columns = {
            column.column_id: column
            for _, schema in sorted(schemas.items())
            for column in schema.columns
        }
        return Projection.of(schemas[schema_id], [columns[number] for number in column_ids])

    # ---- opening and closing

    async def open_all(self) -> None:
        """Recover every bucket that has data; one that fails does not stop the others."""
        make_durably(self._directory)
        await asyncio.to_thread(shutil.rmtree, self._trash, ignore_errors=True)
        for bucket in self._on_disk():
            try:
                await self.tablet(bucket)
            except (HeadwaterError, OSError) as fault:
                _events.error("bucket cannot be opened", bucket=str(bucket), fault=str(fault))

    def _on_disk(self) -> Iterator[TableBucket]:
        for table in filter(_is_numbered, sorted(self._directory.iterdir())):
            for entry in sorted(table.iterdir()):
                yield from _buckets_in(entry, table_id=int(table.name))

    async def drop_table(self, table_id: int) -> None:
        """Close the tablets of a table and remove its data."""
        await self._drop(
            [bucket for bucket in self.known() if bucket.table_id == table_id],
            self._directory / str(table_id),
        )

    async def drop_partition(self, table_id: int, partition_id: int) -> None:
        """Close the tablets of a partition and remove its data."""
        await self._drop(
            [bucket for bucket in self.known() if bucket.partition_id == partition_id],
            self._directory / str(table_id) / f"p{partition_id}",
        )

    def known(self) -> tuple[TableBucket, ...]:
        """List the buckets that are open, being opened, or cannot be opened."""
        return (*self._open, *self._opening, *self.unopenable)

    async def _drop(self, buckets: list[TableBucket], directory: Path) -> None:
        for bucket in buckets:
            if bucket in self._opening:
                await asyncio.wait([self._opening[bucket]])
            tablet = self._open.pop(bucket, None)
            self.unopenable.pop(bucket, None)
            await self.keyed.close(bucket, save=False)
            self._on_drop(bucket)
            if tablet is not None:
                await _close(bucket, tablet)
        await asyncio.to_thread(self._remove, directory)

    def _remove(self, directory: Path) -> None:
        if not directory.exists():
            return
        # Renamed first, so that a crash leaves no half of a table where logs are expected.
        target = self._trash / "-".join(directory.relative_to(self._directory).parts)
        try:
            self._trash.mkdir(exist_ok=True)
            directory.rename(target)
        except OSError as error:
            # On a full disk there may be no space for a name; the rest is deleted at the next
            # start.
            _events.warning("not renamed before removal", reason=str(error))
            target = directory
        shutil.rmtree(target, ignore_errors=True)

    async def close(self) -> None:
        """Make everything durable and close every log."""
        for bucket, tablet in self.all_open():
            await self.keyed.close(bucket, save=True)
            await _close(bucket, tablet)
        self._open.clear()


def directory_of(bucket: TableBucket) -> str:
    """Return the folder of a bucket below that of all logs."""
    partition = "" if bucket.partition_id is None else f"p{bucket.partition_id}/"
    return f"{bucket.table_id}/{partition}{bucket.bucket}"


async def _close(bucket: TableBucket, tablet: LogTablet) -> None:
    try:
        await tablet.close()
    except HeadwaterError as fault:
        _events.error("bucket did not close", bucket=str(bucket), fault=str(fault))


def _is_numbered(path: Path) -> bool:
    return path.name.isdigit() and path.is_dir()


def _buckets_in(entry: Path, *, table_id: int) -> Iterator[TableBucket]:
    if _is_numbered(entry):
        yield TableBucket(table_id, int(entry.name))
    elif entry.name.startswith("p") and entry.name[1:].isdigit():
        for bucket in filter(_is_numbered, sorted(entry.iterdir())):
            yield TableBucket(table_id, int(bucket.name), int(entry.name[1:]))
