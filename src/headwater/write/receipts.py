"""What a write returns, and how it is put together from the answers for its parts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import HeadwaterError, MissingError, RequestError

UNKNOWN_OFFSET = -1

PlaceKey = tuple[str | None, int]
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


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """Hold what became of the rows of one call."""

    rows_submitted: int
    rows_written: int
    rows_unknown: int
    buckets: Mapping[PlaceKey, tuple[int, int]]
    fault: HeadwaterError | None


class Delivery:
    """Collect what becomes of the rows of one call."""

    def __init__(
        self, on_failure: Callable[[HeadwaterError, PlaceKey], None] | None = None
    ) -> None:
        self._on_failure = on_failure
        self._rows_submitted = 0
        self._rows_open = 0
        self._rows_written = 0
        self._rows_unknown = 0
        self._buckets: dict[PlaceKey, tuple[int, int]] = {}
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

    def written(self, place: PlaceKey | None, rows: int, end_offset: int) -> None:
        """Take note of rows that were written; without a place there was nothing to write."""
        self._rows_written += rows
        if place is not None:
            count, end = self._buckets.get(place, (0, UNKNOWN_OFFSET))
            self._buckets[place] = (count + rows, max(end, end_offset))
        self._close(rows)

    def failed(self, place: PlaceKey | None, rows: int, fault: HeadwaterError) -> None:
        """Take note of rows that failed; the first failure is the one that is told."""
        if self._fault is None:
            self._fault = fault
        if not isinstance(fault, RequestError | MissingError):
            # It was sent, perhaps, and an answer did not come.
            self._rows_unknown += rows
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

    async def outcome(self) -> WriteOutcome:
        """Wait until all rows were written or have failed."""
        await self._settled.wait()
        return WriteOutcome(
            self._rows_submitted,
            self._rows_written,
            self._rows_unknown,
            self._buckets,
            self._fault,
        )

    async def receipt(self) -> Receipt:
        """Wait for all rows; raise the first failure, saying how many rows were written."""
        return receipt_of([await self.outcome()])


def receipt_of(outcomes: Sequence[WriteOutcome]) -> Receipt:
    """Return what was written; raise the first failure, saying how many rows were written."""
    fault = next((each.fault for each in outcomes if each.fault is not None), None)
    if fault is not None:
        raise _told(fault, outcomes)
    buckets: dict[PlaceKey, tuple[int, int]] = {}
    for outcome in outcomes:
        for place, (rows, end) in outcome.buckets.items():
            count, known = buckets.get(place, (0, UNKNOWN_OFFSET))
            buckets[place] = (count + rows, max(known, end))
    ordered = sorted(buckets.items(), key=lambda each: (each[0][0] or "", each[0][1]))
    return Receipt(
        sum(each.rows_written for each in outcomes),
        tuple(BucketReceipt(*place, rows, end) for place, (rows, end) in ordered),
    )


def _told(fault: HeadwaterError, outcomes: Sequence[WriteOutcome]) -> HeadwaterError:
    submitted = sum(each.rows_submitted for each in outcomes)
    written = sum(each.rows_written for each in outcomes)
    unknown = sum(each.rows_unknown for each in outcomes)
    told = fault
    if written or 0 < unknown < submitted:
        rest = f", and nothing is known of {unknown}" if unknown else ""
        known = f"{written} of {submitted} rows that were sent are written{rest}."
        told = type(fault)(f"{fault.message} {known}", hint=fault.hint)
        told.code = fault.code
    told.rows_written, told.rows_unknown = written, unknown
    return told.with_traceback(fault.__traceback__)
