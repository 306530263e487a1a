"""Reading a table as a stream."""

from collections.abc import Iterator
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

from headwater.engines.spark.clients import Link
from headwater.engines.spark.options import LIMIT, MAX_ROWS
from headwater.engines.spark.reading.cursor_marks import CursorMarks
from headwater.engines.spark.reading.first_view import (
    BEFORE_VIEW,
    begins_with_view,
    first_shares,
    offset_after_view,
)
from headwater.engines.spark.reading.follower import Follower
from headwater.engines.spark.reading.plan import shares
from headwater.engines.spark.reading.progress import splits_between
from headwater.engines.spark.reading.reading import Reading
from headwater.engines.spark.reading.starts import first_offset
from headwater.engines.spark.reading.stream_offset import (
    Document,
    StreamOffset,
    offset_document,
    read_offset,
)
from headwater.engines.spark.reading.task import read_share
from headwater.engines.spark.reading.view_read import ViewShare, read_view
from headwater.engines.spark.source_options import SourceOptions, position_option
from headwater.errors import InvalidOptionError


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

    def initialOffset(self) -> Document:  # noqa: N802 - Spark's
        """Return where to begin."""
        if begins_with_view(self._reading, self._options):
            return self._document(BEFORE_VIEW)
        return self._document(self._first())

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:  # noqa: N802
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

    def reportLatestOffset(self) -> Document | None:  # noqa: N802 - Spark's
        """Return where the logs end, and how many rows the stream is behind."""
        follower = self._follower
        if follower is None or follower.last is None:
            return None
        ends = StreamOffset(positions=follower.seen, partition_ids=follower.last.partition_ids)
        return {**self._document(ends), "rows_behind": follower.rows_behind}

    # ---- reading

    def partitions(self, start: Document, end: Document) -> list[InputPartition]:
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
        planned = shares(
            splits_between(first, last, self._reading.table.table_id),
            split_rows=self._options.split_rows,
            # Changes of one key have an order, which tasks side by side would not keep.
            cuts=not self._reading.table.is_keyed,
        )
        return [InputPartition(share) for share in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        share = partition.value or ()
        if isinstance(share, ViewShare):
            return read_view(self._reading, share, schema=self._schema, options=self._options)
        return read_share(
            self._reading,
            share,
            schema=self._schema,
            truncates_nanoseconds=self._options.truncates_nanoseconds,
        )

    def commit(self, end: Document) -> None:
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

    def _first(self) -> StreamOffset:
        link = self._reading.link()
        return link.loop.run(first_offset(link.awaiting, self._reading, self._options))

    def _following(self, link: Link) -> Follower:
        if self._follower is None:
            self._follower = Follower(link.awaiting, self._reading, self._options)
        return self._follower

    def _document(self, offset: StreamOffset) -> Document:
        return offset_document(offset, self._reading.table)

    def _offset(self, document: Document) -> StreamOffset:
        return read_offset(document, self._reading.table)


def _check(options: SourceOptions) -> None:
    if options.limit is not None:
        raise InvalidOptionError(
            f"'{LIMIT.name}' is for batch reads, and this is a stream.",
            hint=f"Use '{MAX_ROWS.name}' to limit what one micro-batch reads.",
        )
    if (named := position_option(options.position)) is not None:
        raise InvalidOptionError(
            f"'{named}' is for batch reads, and this is a stream.",
            hint="Use 'scan.startup.mode' and what goes with it to say where to begin.",
        )
