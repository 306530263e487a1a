"""Whether lake snapshots of a primary-key table hold the rows that there were at their ends."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headwater.audit.digest import NOTHING, Digest, RowHasher
from headwater.audit.lakes import view
from headwater.audit.lakes.digests import GroupRows, LakeReading, LogReading, StatesAt
from headwater.audit.lakes.evidence import (
    ROWS_MAX,
    Evidence,
    EvidenceSearch,
    Pieces,
    RowDifference,
    difference,
)
from headwater.audit.report import Check, Notes, Proof, Severity
from headwater.config.options import CHANGELOG_IMAGE, KV_TTL, ChangelogImage
from headwater.errors import HeadwaterError, StorageError
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeSplit
from headwater.model import LakeBucket, OffsetRange
from headwater.rows.row_bytes import Words
from headwater.runtime.tasks import aside

RowsOf = Callable[[view.SnapshotExtent, view.Group], Awaitable[Words]]


@dataclass(slots=True)
class Foreign:
    """Tell what others did from what tierers did wrong.

    Snapshots of others carry no offsets, so that all that they have more or less than the one
    before them is theirs.
    """

    line: Sequence[view.SnapshotExtent]
    rows_of: RowsOf
    """Reads which rows a group has in a snapshot."""
    _known: dict[tuple[int, view.Group], Words] = field(default_factory=dict)

    async def explains(
        self, found: RowDifference, group: view.Group, held: view.SnapshotExtent
    ) -> bool:
        """Tell whether all that differs in a snapshot was done by others, up to there."""
        missing, extra = found.missing, found.extra
        if not len(missing) and not len(extra):
            return False
        for first, last in _runs(self.line[: self.line.index(held) + 1]):
            now = await self._rows(self.line[last], group)
            if first:
                before = await self._rows(self.line[first - 1], group)
                missing = np.setdiff1d(missing, np.setdiff1d(before, now))
                extra = np.setdiff1d(extra, np.setdiff1d(now, before))
            else:
                # What was before it is not kept: all of it may be theirs.
                missing, extra = np.intersect1d(missing, now), np.setdiff1d(extra, now)
        return not len(missing) and not len(extra)

    async def _rows(self, held: view.SnapshotExtent, group: view.Group) -> Words:
        key = (held.snapshot_id, group)
        if key not in self._known:
            self._known[key] = await self.rows_of(held, group)
        return self._known[key]


def _runs(line: Sequence[view.SnapshotExtent]) -> Iterator[tuple[int, int]]:
    """Yield the first and last place of snapshots of others that follow each other.

    An overwrite may be two: one that takes all away, and one that brings most of it back.
    """
    first: int | None = None
    for place, held in enumerate(line):
        if not held.is_own and first is None:
            first = place
        if first is not None and (held.is_own or place + 1 == len(line)):
            yield first, place - held.is_own
            first = None


# Whether lake snapshots of a primary-key table hold the rows that there were at their ends.

SNAPSHOTS_MAX = 8
"""Snapshots that are compared: by key, each of them is read anew."""
_CHECK = Check.LAKE_ROWS


class KeyedRowCheck:
    """Compare the lake table of a primary-key table with its log and its rows."""

    def __init__(
        self, looked: view.LakeView, source: LakeSource, say: view.LakeFindings, notes: Notes
    ) -> None:
        hasher = RowHasher([column.type for column in looked.table.schema.columns])
        self._looked = looked
        self._say = say
        self._notes = notes
        self._source = source
        self._hasher = hasher
        self._lake = LakeReading(source, hasher, is_keyed=True)
        log = LogReading(looked, hasher)
        self._states = StatesAt(looked, log, hasher)
        self._searching = EvidenceSearch(log, self._lake, hasher)
        self._grouping = view.Grouping(looked, ())
        self._foreign = Foreign(looked.line, self._hashes)
        self._proven = 0
        self._reasons: dict[str, None] = {}

    async def prove(self) -> None:
        """Compare what can be compared, and note what cannot."""
        options = self._looked.table.descriptor.properties
        line = view.thinned([each for each in self._looked.line if each.ranges], SNAPSHOTS_MAX)
        if KV_TTL.of(options) is not None:
            self._reasons["rows expire by 'table.kv.ttl', which the log does not tell"] = None
            await self._read_through(line[-1:])
        elif CHANGELOG_IMAGE.required(options) is ChangelogImage.WAL:
            self._reasons[
                "the log does not tell what rows were, so only rows that did not change"
                " since the newest snapshot are compared"
            ] = None
            await self._prove_unchanged(line[-1:])
        else:
            await self._prove_states(line)
        self._notes.proven(
            Proof(
                check=_CHECK,
                table=str(self._say.path),
                amount=self._proven,
                note="; ".join(self._reasons),
            )
        )

    # ---- logs that tell what rows were

    async def _prove_states(self, line: Sequence[view.SnapshotExtent]) -> None:
        """Compare snapshots with the rows at their ends, as the log adds them up."""
        states = await self._digests(line)
        for held in line:
            self._notes.progress(f"{self._say.path}: comparing lake snapshot {held.snapshot_id}")
            splits = await aside(self._source.plan, held.snapshot_id)
            self._grouping = view.Grouping(self._looked, splits)
            rows = await self._lake.of(splits, self._grouping)
            bounded = self._grouping.ranges(held)
            for group in sorted({*bounded, *rows}, key=str):
                found, ranges = rows.get(group, GroupRows()), bounded.get(group, {})
                wanted = self._wanted(ranges, states)
                if found.fault is not None:
                    self._unreadable(found.fault)
                elif wanted is None or (group.partition is not None and not ranges):
                    # Nobody knows the log of a partition that was dropped any more.
                    continue
                elif found.digest == wanted:
                    self._proven += wanted.count if held is line[-1] else 0
                else:
                    await self._accuse(group, ranges, held, splits)

    async def _digests(
        self, line: Sequence[view.SnapshotExtent]
    ) -> dict[LakeBucket, Mapping[int, Digest]]:
        found: dict[LakeBucket, Mapping[int, Digest]] = {}
        for bucket, log in self._looked.logs.items():
            ends = {held.ranges[bucket].end for held in line if bucket in held.ranges}
            reached = {end for end in ends if log.start <= end <= log.end}
            if reached != ends:
                self._reasons["the log does not reach back to older snapshots"] = None
            try:
                found[bucket] = await self._states.digests(bucket, reached)
            except HeadwaterError as fault:
                self._unknown(f"bucket {bucket.bucket}", fault)
        return found

    def _wanted(
        self,
        ranges: Mapping[LakeBucket, OffsetRange],
        states: Mapping[LakeBucket, Mapping[int, Digest]],
    ) -> Digest | None:
        """Return what the rows of buckets add up to at the ends of ranges; None if unknown."""
        total = NOTHING
        for bucket, held in ranges.items():
            digest = states.get(bucket, {}).get(held.end)
            if digest is None:
                return None
            total = total + digest
        return total

    # ---- logs that do not

    async def _read_through(self, line: Sequence[view.SnapshotExtent]) -> None:
        """See that the rows of snapshots can be read, where there is nothing to compare with."""
        for held in line:
            await self._read_only(await aside(self._source.plan, held.snapshot_id))

    async def _read_only(self, splits: Sequence[LakeSplit]) -> None:
        for found in (await self._lake.of(splits, self._grouping)).values():
            if found.fault is not None:
                self._unreadable(found.fault)

    async def _prove_unchanged(self, line: Sequence[view.SnapshotExtent]) -> None:
        """Compare the rows that did not change since the newest snapshot.

        Others may be newer in the lake than its boundary tells, until the next round.
        """
        for held in line:
            splits = await aside(self._source.plan, held.snapshot_id)
            self._grouping = view.Grouping(self._looked, splits)
            bounded = self._grouping.ranges(held)
            for group in sorted({*bounded, *map(self._grouping.of_split, splits)}, key=str):
                parts = [each for each in splits if self._grouping.of_split(each) == group]
                await self._compare_unchanged(group, bounded.get(group, {}), held, parts)

    async def _compare_unchanged(
        self,
        group: view.Group,
        ranges: Mapping[LakeBucket, OffsetRange],
        held: view.SnapshotExtent,
        parts: Sequence[LakeSplit],
    ) -> None:
        if not ranges or not all(map(self._looked.is_live, ranges)):
            await self._read_only(parts)
            return
        wanted = found = NOTHING
        try:
            changed = await self._changed(ranges)
            async for rows in self._rows_of_now(ranges):
                wanted = wanted + self._hasher.digest(self._states.without(rows, changed))
        except HeadwaterError as fault:
            self._unknown(str(group), fault)
            await self._read_only(parts)
            return
        try:
            for part in parts:
                for rows in await aside(self._read, part):
                    found = found + self._hasher.digest(self._states.without(rows, changed))
        except HeadwaterError as fault:
            self._unreadable(fault)
            return
        if found == wanted:
            self._proven += found.count
        else:
            evidence = await self._unchanged_evidence(ranges, changed, parts)
            await self._bad(group, ranges, held, evidence)

    async def _unchanged_evidence(
        self,
        ranges: Mapping[LakeBucket, OffsetRange],
        changed: pa.BinaryArray,
        parts: Sequence[LakeSplit],
    ) -> Evidence:
        """Look for the rows that differ."""
        if sum(each.row_count for each in parts) > ROWS_MAX:
            return Evidence(difference([], []))
        try:
            wanted = [
                self._hasher.hashes(self._states.without(rows, changed))
                async for rows in self._rows_of_now(ranges)
            ]
            found = [
                self._hasher.hashes(self._states.without(rows, changed))
                for part in parts
                for rows in await aside(self._read, part)
            ]
            differing = difference(wanted, found)
            return await self._searching.told(self._reached(ranges), differing, parts)
        except HeadwaterError:
            return Evidence(difference([], []))

    async def _changed(self, ranges: Mapping[LakeBucket, OffsetRange]) -> pa.BinaryArray:
        return pa.concat_arrays(
            [await self._states.changed(bucket, each.end) for bucket, each in ranges.items()]
        )

    async def _rows_of_now(
        self, ranges: Mapping[LakeBucket, OffsetRange]
    ) -> AsyncIterator[pa.RecordBatch]:
        for bucket in ranges:
            async for rows in self._states.rows(bucket, self._looked.logs[bucket].end):
                yield rows

    def _read(self, part: LakeSplit) -> list[pa.RecordBatch]:
        return list(self._lake.batches(part))

    # ---- what differs

    async def _accuse(
        self,
        group: view.Group,
        ranges: Mapping[LakeBucket, OffsetRange],
        held: view.SnapshotExtent,
        splits: Sequence[LakeSplit],
    ) -> None:
        parts = [each for each in splits if self._grouping.of_split(each) == group]
        evidence = Evidence(difference([], []))
        try:
            if sum(each.row_count for each in parts) <= ROWS_MAX:
                evidence = await self._searching.of_state(
                    self._rows(ranges), self._reached(ranges), held=parts
                )
        except HeadwaterError as fault:
            self._reasons[f"{group} cannot be searched: {fault.message}"] = None
        await self._bad(group, ranges, held, evidence)

    async def _rows(
        self, ranges: Mapping[LakeBucket, OffsetRange]
    ) -> AsyncIterator[pa.RecordBatch]:
        for bucket, held in ranges.items():
            async for rows in self._states.rows(bucket, held.end):
                yield rows

    def _reached(self, ranges: Mapping[LakeBucket, OffsetRange]) -> Pieces:
        logs = self._looked.logs
        return {
            bucket: OffsetRange(logs[bucket].start, held.end) for bucket, held in ranges.items()
        }

    async def _bad(
        self,
        group: view.Group,
        ranges: Mapping[LakeBucket, OffsetRange],
        held: view.SnapshotExtent,
        evidence: Evidence,
    ) -> None:
        is_foreign = _is_left_over(group, evidence) or await self._is_foreign(group, held, evidence)
        self._notes.bad(
            self._say.bucket(
                _CHECK,
                evidence.bucket
                or min(ranges, key=str, default=LakeBucket(None, max(group.bucket, 0))),
                f"{group} of lake snapshot {held.snapshot_id} does not hold the rows that there"
                f" were at its end: it {evidence.text}.",
                offset=evidence.offset,
                severity=Severity.WARNING if is_foreign else Severity.ERROR,
                remedy="Others changed the lake table, or left rows of an earlier partition there."
                if is_foreign
                else f"Tier the table anew: headwater lake drop {self._say.path}, then headwater"
                f" tier {self._say.path} --begin-anew",
            )
        )

    async def _is_foreign(
        self, group: view.Group, held: view.SnapshotExtent, evidence: Evidence
    ) -> bool:
        try:
            return await self._foreign.explains(evidence.difference, group, held)
        except HeadwaterError as fault:
            self._reasons[f"{group} cannot be searched: {fault.message}"] = None
            return False

    async def _hashes(self, held: view.SnapshotExtent, group: view.Group) -> Words:
        splits = await aside(self._source.plan, held.snapshot_id)
        grouping = view.Grouping(self._looked, splits)
        return await self._searching.hashes(
            part for part in splits if grouping.of_split(part) == group
        )

    def _unknown(self, what: str, fault: HeadwaterError) -> None:
        """Say that a log cannot be compared: it forgot, or it is damaged."""
        self._reasons[f"{what} cannot be compared: {fault.message}"] = None
        if isinstance(fault, StorageError):
            self._notes.bad(
                self._say.table(
                    Check.READABLE,
                    f"The log of {what} cannot be compared with the lake: {fault.message}",
                    remedy=fault.hint,
                )
            )

    def _unreadable(self, fault: HeadwaterError) -> None:
        self._reasons["some files of the lake cannot be read"] = None
        finding = self._say.fault(Check.LAKE_FILES, fault)
        if finding not in self._notes.findings:
            self._notes.bad(finding)


def _is_left_over(group: view.Group, evidence: Evidence) -> bool:
    """Tell whether rows may be those of an earlier partition of the same name.

    They stay when a partition is dropped, and the log of the one of now does not know them.
    """
    rows = evidence.difference
    is_more = bool(rows.extra_count) and not rows.missing_count
    return group.partition is not None and is_more and not evidence.is_known
