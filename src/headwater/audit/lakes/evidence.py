"""Where rows of lake and log differ: the first offset, and a row that should not be there."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from headwater.audit.digest import RowHasher
from headwater.audit.lakes.digests import HashedBatch, LakeReading, LogReading
from headwater.lake.split import LakeSplit
from headwater.model import LakeBucket, OffsetRange
from headwater.rows.row_bytes import Mask, Words
from headwater.runtime.tasks import aside


@dataclass(frozen=True, slots=True, eq=False)
class RowDifference:
    """Hold the hashes of rows that one heap has more often than the other."""

    missing: Words
    missing_count: int
    extra: Words
    extra_count: int


def difference(
    wanted: Sequence[Words], found: Sequence[Words], left: Sequence[Words] = ()
) -> RowDifference:
    """Compare the rows that should be there with those that are, less those that left again."""
    heaps = [_joined(wanted), _joined(found), _joined(left)]
    values, places = np.unique(np.concatenate(heaps), return_inverse=True)
    signs = np.repeat(np.array([-1, 1, -1], np.int64), [len(heap) for heap in heaps])
    # Weights are floats, which are exact up to 2^53.
    more = np.bincount(places.ravel(), weights=signs, minlength=len(values)).astype(np.int64)
    return RowDifference(
        missing=values[more < 0],
        missing_count=-int(more[more < 0].sum()),
        extra=values[more > 0],
        extra_count=int(more[more > 0].sum()),
    )


def _joined(parts: Sequence[Words]) -> Words:
    return np.concatenate([np.empty(0, np.uint64), *parts])


# Where rows of lake and log differ: the first offset, and a row that should not be there.

ROWS_MAX = 50_000_000
"""Rows that are compared one by one; beyond that, it is only said that they differ."""
_SHOWN_MAX = 200

Pieces = Mapping[LakeBucket, OffsetRange]
_Where = tuple[LakeBucket, int]


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Say what differs."""

    difference: RowDifference
    bucket: LakeBucket | None = None
    offset: int | None = None
    """The first offset whose row the lake lacks or has too often, or whose change it lacks."""
    is_known: bool = False
    """Whether the log knows a row that the lake has and should not."""
    shown: str = ""
    """A row that the lake has and should not, with its file."""

    @property
    def text(self) -> str:
        """Return what differs, as the end of a sentence."""
        rows = self.difference
        parts = [
            f"lacks {rows.missing_count} rows" if rows.missing_count else "",
            f"has {rows.extra_count} rows too many" if rows.extra_count else "",
        ]
        said = " and ".join(filter(None, parts)) or "differs"
        return f"{said}{f', such as {self.shown}' if self.shown else ''}"


class EvidenceSearch:
    """Look for the rows behind digests that differ."""

    def __init__(self, log: LogReading, lake: LakeReading, hasher: RowHasher) -> None:
        self._log = log
        self._lake = lake
        self._hasher = hasher

    async def of_log(
        self, pieces: Pieces, *, added: Iterable[LakeSplit], left: Iterable[LakeSplit]
    ) -> Evidence:
        """Compare parts of logs with the files that a snapshot has more than the one before."""
        new = list(added)
        wanted = await self._of_logs(pieces)
        found, gone = await self._of_lake(new), await self._of_lake(left)
        differing = difference(wanted, found, gone)
        return await self.told(pieces, differing, new)

    async def of_state(
        self, rows: AsyncIterator[pa.RecordBatch], pieces: Pieces, *, held: Iterable[LakeSplit]
    ) -> Evidence:
        """Compare rows by key with those that a snapshot has."""
        parts = list(held)
        wanted = [await aside(self._hasher.hashes, batch) async for batch in rows]
        differing = difference(wanted, await self._of_lake(parts))
        return await self.told(pieces, differing, parts)

    async def missing_of_log(self, pieces: Pieces, *, held: Iterable[LakeSplit]) -> Evidence:
        """Look for rows of logs that a snapshot lacks, whatever else it has."""
        differing = difference(await self._of_logs(pieces), await self._of_lake(held))
        lacking = replace(differing, extra=np.empty(0, np.uint64), extra_count=0)
        return await self.told(pieces, lacking, ())

    async def hashes(self, parts: Iterable[LakeSplit]) -> Words:
        """Return the hashes of the rows of some files, each once."""
        return np.unique(np.concatenate([np.empty(0, np.uint64), *await self._of_lake(parts)]))

    async def _of_logs(self, pieces: Pieces) -> list[Words]:
        return [
            each.hashes
            for bucket, wanted in pieces.items()
            async for each in self._log.hashed(bucket, wanted)
        ]

    async def _of_lake(self, parts: Iterable[LakeSplit]) -> list[Words]:
        return [await aside(self._hashes, part) for part in parts]

    def _hashes(self, part: LakeSplit) -> Words:
        found = [self._hasher.hashes(rows) for rows in self._lake.batches(part)]
        return np.concatenate([np.empty(0, np.uint64), *found])

    async def told(
        self, pieces: Pieces, differing: RowDifference, parts: Sequence[LakeSplit]
    ) -> Evidence:
        """Say where logs know of rows that differ, and show one of those that are too many."""
        first, known = await self._first(pieces, differing)
        bucket, offset = first or known or (None, None)
        return Evidence(
            differing,
            bucket,
            offset,
            is_known=known is not None,
            shown=await aside(self._shown, parts, differing.extra),
        )

    async def _first(
        self, pieces: Pieces, differing: RowDifference
    ) -> tuple[_Where | None, _Where | None]:
        """Find the first change whose row is missing, or that took a row which is still there.

        And the first that knows a row which should not be there, whatever it did to it.
        """
        first: _Where | None = None
        known: _Where | None = None
        for bucket, wanted in sorted(pieces.items(), key=str):
            async for each in self._log.hashed(bucket, wanted):
                is_extra = np.isin(each.hashes, differing.extra)
                is_bad = np.where(each.taken, is_extra, np.isin(each.hashes, differing.missing))
                first = first or _where(bucket, each, is_bad)
                known = known or _where(bucket, each, is_extra)
                if first and (known or not len(differing.extra)):
                    return first, known
        return first, known

    def _shown(self, parts: Iterable[LakeSplit], extra: Words) -> str:
        if not len(extra):
            return ""
        for part in parts:
            for rows in self._lake.batches(part):
                at = np.flatnonzero(np.isin(self._hasher.hashes(rows), extra))
                if len(at):
                    row = str(rows.slice(int(at[0]), 1).to_pylist()[0])
                    place = part.files[0].path if len(part.files) == 1 else f"bucket {part.bucket}"
                    return f"{row[:_SHOWN_MAX]} in {place}"
        return ""


def _where(bucket: LakeBucket, each: HashedBatch, is_meant: Mask) -> _Where | None:
    at = np.flatnonzero(is_meant)
    return (bucket, int(each.offsets[at[0]])) if len(at) else None
