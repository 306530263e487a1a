"""What a write returns, and how it is put together from the answers for its parts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headwater.errors import HeadwaterError

UNKNOWN_OFFSET = -1

Place = tuple[str | None, int]
"""The name of a partition, and a bucket of it."""


@dataclass(frozen=True, slots=True)
class BucketReceipt:
    """Tell how many rows a bucket took, and where its log ended after them.

    The end is exclusive; it is -1 if the server did not say.
    """

    partition: str | None
    bucket: int
    rows: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Tell what was written, and where."""

    rows: int
    buckets: tuple[BucketReceipt, ...]


class Delivery:
    """Collect what becomes of the rows of one call."""

    def __init__(self, on_failure: Callable[[HeadwaterError, Place], None] | None = None) -> None:
        self._on_failure = on_failure
        self._rows_submitted = 0
        self._rows_open = 0
        self._rows_written = 0
        self._buckets: dict[Place, tuple[int, int]] = {}
        self._fault: HeadwaterError | None = None
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def has_failed(self) -> bool:
        """Tell whether a part has failed already, so that there is no use in going on."""
        return self._fault is not None

    def submitted(self, rows: int) -> None:
        """Take note of rows that are to be written."""
        self._rows_submitted += rows
        self._rows_open += rows
        self._settled.clear()

    def written(self, place: Place | None, rows: int, end_offset: int) -> None:
        """Take note of rows that were written; without a place there was nothing to write."""
        self._rows_written += rows
        if place is not None:
            count, end = self._buckets.get(place, (0, UNKNOWN_OFFSET))
            self._buckets[place] = (count + rows, max(end, end_offset))
        self._close(rows)

    def failed(self, place: Place | None, rows: int, fault: HeadwaterError) -> None:
        """Take note of rows that failed; the first failure is the one that is told."""
        if self._fault is None:
            self._fault = fault
        if place is not None and self._on_failure is not None:
            self._on_failure(fault, place)
        self._close(rows)

    def refused(self, rows: int, fault: HeadwaterError) -> None:
        """Take note of rows that cannot be sent."""
        self._rows_submitted += rows
        if self._fault is None:
            self._fault = fault

    def _close(self, rows: int) -> None:
        self._rows_open -= rows
        assert self._rows_open >= 0
        if not self._rows_open:
            self._settled.set()

    async def receipt(self) -> Receipt:
        """Wait for all rows; raise the first failure, saying how many rows were written."""
        await self._settled.wait()
        if self._fault is not None:
            raise self._told(self._fault)
        buckets = sorted(self._buckets.items(), key=lambda each: (each[0][0] or "", each[0][1]))
        return Receipt(
            self._rows_written,
            tuple(BucketReceipt(*place, rows, end) for place, (rows, end) in buckets),
        )

    def _told(self, fault: HeadwaterError) -> HeadwaterError:
        if self._rows_written == 0:
            return fault
        known = f"{self._rows_written} of {self._rows_submitted} rows that were sent are written."
        told = type(fault)(f"{fault.message} {known}", hint=fault.hint)
        told.code = fault.code
        return told.with_traceback(fault.__traceback__)
