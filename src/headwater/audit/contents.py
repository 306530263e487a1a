"""What the batches of a log hold: their rows, and the changes that these are."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headwater.audit.bucket import AuditedBucket
from headwater.audit.changes import ChangeFold, ChangeRules, Changes
from headwater.audit.comparing import Sample
from headwater.audit.finding import Check
from headwater.audit.prints import Prints
from headwater.client.reading.log_batch import LogBatch
from headwater.client.reading.log_reader import LogReader, Source, StoredBatch
from headwater.client.reading.view import View
from headwater.errors import HeadwaterError
from headwater.model.bucket import OffsetRange
from headwater.rows.log_batch import ChangeType, read_sections
from headwater.runtime.aside import aside

_NO_END = 2**63 - 1


class RowReading:
    """Decode the rows of batches, one batch after the other."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._audited = audited
        self._reader = LogReader(audited.cluster, View.of(audited.table))
        self._source = Source(audited.bucket, audited.place.partition, is_projected=False)
        self.row_count = 0

    async def decoded(self, batches: Sequence[StoredBatch]) -> list[LogBatch | None]:
        """Return the rows of batches; None where a batch cannot be decoded."""
        try:
            await self._reader.prepare(batches)
        except HeadwaterError as fault:
            self._unreadable(batches[0], fault)
            return [None]
        return await aside(lambda: [each for batch in batches for each in self._decode(batch)])

    def _decode(self, batch: StoredBatch) -> list[LogBatch | None]:
        wanted = OffsetRange(batch.header.base_offset, _NO_END)
        try:
            found = self._reader.read([batch], wanted, source=self._source)
            for each in found:
                each.rows.validate(full=True)
        except (HeadwaterError, pa.ArrowInvalid) as fault:
            self._unreadable(batch, fault)
            return [None]
        self.row_count += sum(each.rows.num_rows for each in found)
        return [*found]

    def _unreadable(self, batch: StoredBatch, fault: Exception) -> None:
        why = fault.message if isinstance(fault, HeadwaterError) else str(fault)
        self._audited.bad(
            Check.READABLE,
            f"The rows of the batch at offset {batch.header.base_offset} cannot be decoded: {why}",
            offset=batch.header.base_offset,
            remedy="Its checksum is good, so it was written like that: write the rows again.",
        )


class RowContents:
    """Decode every row of a log table."""

    def __init__(self, audited: AuditedBucket) -> None:
        self._reading = RowReading(audited)

    @property
    def row_count(self) -> int:
        """Return how many rows were decoded."""
        return self._reading.row_count

    async def take(self, batches: Sequence[StoredBatch]) -> None:
        """Decode batches."""
        await self._reading.decoded(batches)

    def begin_anew(self) -> None:
        """Expect anything: rows stand for themselves."""


class ChangeContents:
    """Fold the changes of a primary-key table."""

    def __init__(self, audited: AuditedBucket, *, rules: ChangeRules, is_whole: bool) -> None:
        self._reading = RowReading(audited)
        self.prints = Prints(audited.table)
        self.fold = ChangeFold(rules, is_whole)
        self.sample = Sample()
        """Some of the changed rows, for those who cannot ask for all rows."""

    async def take(self, batches: Sequence[StoredBatch]) -> None:
        """Decode the changes of batches and fold them."""
        decoded = await self._reading.decoded(batches)
        await aside(self._take, decoded)

    def begin_anew(self) -> None:
        """Forget what was folded, as changes behind it are not known."""
        self.fold.begin_anew()

    def _take(self, decoded: Sequence[LogBatch | None]) -> None:
        for batch in decoded:
            if batch is None or batch.changes is None:
                self.fold.begin_anew()
                continue
            keys, rows = self.prints.keys(batch.rows), self.prints.rows(batch.rows)
            self.fold.add(Changes(batch.changes, keys, rows, batch.offsets))
            self.sample.take(batch.rows)


class ChangeCounts:
    """Count how many rows the changes of a primary-key table leave, without decoding them."""

    def __init__(self, *, is_whole: bool) -> None:
        self.is_whole = is_whole
        self.row_count = 0

    async def take(self, batches: Sequence[StoredBatch]) -> None:
        """Count inserts and deletes."""
        for batch in batches:
            if batch.header.is_append_only:
                continue
            sections = read_sections(batch.data, batch.header)
            section = batch.data[sections.parts_end : sections.changes_end]
            types = np.frombuffer(section, np.uint8)
            self.row_count += int(np.count_nonzero(types == ChangeType.INSERT))
            self.row_count -= int(np.count_nonzero(types == ChangeType.DELETE))

    def begin_anew(self) -> None:
        """Know that changes are missing."""
        self.is_whole = False
