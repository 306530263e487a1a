"""Read a table as a stream, and note its progress in the cursor that it began with."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headwater.client.client import AsyncClient
from headwater.client.cursors.cursor import member_name
from headwater.client.cursors.ledger import CursorMark, Ledger, TableStore, ensure_cursors
from headwater.client.cursors.rows import GroupKey
from headwater.engines.spark.clients import SparkLink
from headwater.engines.spark.options import LIMIT, MAX_ROWS
from headwater.engines.spark.read import stream_offset
from headwater.engines.spark.read.follower import Follower
from headwater.engines.spark.read.progress import splits_between
from headwater.engines.spark.read.selection import Reading
from headwater.engines.spark.read.splits import LogShare, log_shares
from headwater.engines.spark.read.start import (
    BEFORE_VIEW,
    begins_with_view,
    first_offset,
    first_shares,
    offset_after_view,
)
from headwater.engines.spark.read.task import read_share
from headwater.engines.spark.read.view import ViewShare, read_view
from headwater.engines.spark.source_options import SourceOptions, position_option
from headwater.errors import InvalidOptionError
from headwater.model import TableBucket, TablePath
from headwater.runtime.events import Events

_events = Events("spark")


class CursorMarks:
    """Move a cursor along with a stream.

    Each bucket is claimed once and given free with every position, so that whoever uses the
    cursor next goes on from there. A bucket that another reader takes is left to it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._generations: dict[TableBucket, int] = {}
        self._lost: set[TableBucket] = set()

    @classmethod
    async def of(cls, client: AsyncClient, name: str, table: TablePath) -> "CursorMarks":
        """Return the marks of a cursor over a table."""
        info = await ensure_cursors(client.cluster)
        store = TableStore(await client.table(info.path), GroupKey(name, str(table)))
        return cls(Ledger(store, f"spark-{member_name()}", client.cluster.clock))

    async def commit(self, positions: Mapping[TableBucket, int]) -> None:
        """Note the offset that is read next in each bucket."""
        new = [b for b in positions if b not in self._generations and b not in self._lost]
        if new:
            await self._claim(new)
        marks = {
            bucket: CursorMark(generation, positions[bucket])
            for bucket, generation in self._generations.items()
            if bucket in positions
        }
        if marks:
            self._lose(await self._ledger.commit(marks, releases=True))

    async def _claim(self, buckets: list[TableBucket]) -> None:
        view = await self._ledger.read()
        claims = {bucket: view.slot(bucket).generation + 1 for bucket in buckets}
        view = await self._ledger.claim(claims)
        for bucket, generation in claims.items():
            if view.slot(bucket).is_held_by(self._ledger.member, generation):
                self._generations[bucket] = generation
        self._lose(bucket for bucket in buckets if bucket not in self._generations)
        await self._ledger.forget({bucket: view.slot(bucket).outdated for bucket in buckets})

    def _lose(self, buckets: Iterable[TableBucket]) -> None:
        for bucket in buckets:
            self._lost.add(bucket)
            self._generations.pop(bucket, None)
            _events.warning("bucket of a cursor is read by others", bucket=str(bucket))


# Reading a table as a stream.


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follow a table: what was there, if that is asked for, and then all that comes.

    Of a primary-key table a stream gives rows as they are after inserts and updates. What was
    deleted is seen in its changelog only.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._found: Reading | None = None
        self._follower: Follower | None = None
        self._marks: CursorMarks | None = None

    def __getstate__(self) -> dict[str, object]:
        # Tasks need nothing of what the process keeps that plans for them.
        return {**self.__dict__, "_follower": None, "_marks": None}

    # ---- where it is

    def initialOffset(self) -> stream_offset.Document:  # noqa: N802 - Spark's
        """Return where to begin."""
        if begins_with_view(self._reading, self._options):
            return self._document(BEFORE_VIEW)
        return self._document(self._first())

    def latestOffset(  # noqa: N802 - Spark's
        self, start: stream_offset.Document, limit: ReadLimit
    ) -> stream_offset.Document:
        """Return how far to read now, or the start where there is nothing to read."""
        before = self._offset(start)
        if before.is_before_view:
            return self._document(offset_after_view(self._reading, self._options))
        link = self._reading.link()
        is_limited = not isinstance(limit, ReadAllAvailable)
        work = self._following(link).advance(before, is_limited=is_limited)
        end = self._document(link.loop.run(work))
        # As it was, since another text would be taken for another offset.
        return start if self._offset(end) == replace(before, view=None) else end

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Return the limit that the options set; where they set two, both are kept to."""
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Read no further than the logs reach now."""
        link = self._reading.link()
        link.loop.run(self._following(link).pin())

    def reportLatestOffset(self) -> stream_offset.Document | None:  # noqa: N802 - Spark's
        """Return where the logs end, and how many rows the stream is behind."""
        follower = self._follower
        if follower is None or follower.last is None:
            return None
        ends = stream_offset.StreamOffset(
            positions=follower.seen, partition_ids=follower.last.partition_ids
        )
        return {**self._document(ends), "rows_behind": follower.rows_behind}

    # ---- reading

    def partitions(
        self, start: stream_offset.Document, end: stream_offset.Document
    ) -> list[InputPartition]:
        """Return what each task reads between two offsets, which never changes."""
        first, last = self._offset(start), self._offset(end)
        if view := last.view_since(first):
            found = first_shares(view, self._reading, self._options)
            return [InputPartition(share) for share in found]
        if first.is_before_view:
            # The lake had nothing of the table when the micro-batch was planned.
            first = self._first()
        link = self._reading.link()
        link.loop.run(self._following(link).check_kept(first))
        planned = log_shares(
            splits_between(first, last, self._reading.table.table_id),
            split_rows=self._options.split_rows,
            # Changes of one key have an order, which tasks side by side would not keep.
            cuts=not self._reading.table.is_keyed,
            read_ms=last.state_ms or 0,
        )
        return [InputPartition(share) for share in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        share = partition.value or LogShare()
        if isinstance(share, ViewShare):
            return read_view(self._reading, share, schema=self._schema, options=self._options)
        return read_share(
            self._reading,
            share,
            schema=self._schema,
            truncates_nanoseconds=self._options.truncates_nanoseconds,
        )

    def commit(self, end: stream_offset.Document) -> None:
        """Note how far everything was handled, in the cursor that the stream began with."""
        if self._options.cursor is None:
            return
        link, offset = self._reading.link(), self._offset(end)
        if self._marks is None:
            marks = CursorMarks.of(link.awaiting, self._options.cursor, self._reading.table.path)
            self._marks = link.loop.run(marks)
        table_id = self._reading.table.table_id
        positions = {
            offset.bucket(place, table_id): at
            for place, at in offset.positions.items()
            if at is not None
        }
        link.loop.run(self._marks.commit(positions))

    def stop(self) -> None:
        """Have nothing left to do: the client goes with its process."""

    # ---- parts

    @property
    def _reading(self) -> Reading:
        # Found when it is needed: Spark hides what goes wrong when a reader is made.
        if self._found is None:
            _check(self._options)
            self._found = Reading.of(self._options, self._schema, follows=True)
        return self._found

    def _first(self) -> stream_offset.StreamOffset:
        link = self._reading.link()
        return link.loop.run(first_offset(link.awaiting, self._reading, self._options))

    def _following(self, link: SparkLink) -> Follower:
        if self._follower is None:
            self._follower = Follower(link.awaiting, self._reading, self._options)
        return self._follower

    def _document(self, offset: stream_offset.StreamOffset) -> stream_offset.Document:
        return stream_offset.offset_document(offset, self._reading.table)

    def _offset(self, document: stream_offset.Document) -> stream_offset.StreamOffset:
        return stream_offset.read_offset(document, self._reading.table)


def _check(options: SourceOptions) -> None:
    if options.limit is not None:
        raise InvalidOptionError(
            f"'{LIMIT.name}' is for batch reads, and this is a stream.",
            hint=f"Use '{MAX_ROWS.name}' to limit what one micro-batch reads.",
        )
    if (named := position_option(options.position)) is not None:
        raise InvalidOptionError(
            f"'{named}' is for batch reads, and this is a stream.",
            hint="Set the start with 'scan.startup.mode' and its options.",
        )
