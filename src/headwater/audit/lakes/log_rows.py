"""Whether lake snapshots of a log table hold the very rows of the log, step by step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.audit.digest import NOTHING, Digest, RowHasher
from headwater.audit.lakes import view
from headwater.audit.lakes.digests import GroupRows, LakeReading, LogParts, LogReading
from headwater.audit.lakes.evidence import ROWS_MAX, Evidence, EvidenceSearch, Pieces, difference
from headwater.audit.report import Check, Notes, Proof, Severity
from headwater.errors import HeadwaterError, OffsetOutOfRangeError
from headwater.lake.spi import LakeSource
from headwater.lake.split import LakeSplit
from headwater.model import LakeBucket, OffsetRange
from headwater.runtime.tasks import aside

SNAPSHOTS_MAX = 50
"""Snapshots that are compared; steps between fewer of them are longer, and prove the same rows."""
_CHECK = Check.LAKE_ROWS


@dataclass(frozen=True, slots=True)
class _Seen:
    """Hold a snapshot and what its rows add up to."""

    held: view.SnapshotExtent | None
    rows: Mapping[view.Group, GroupRows]


@dataclass(frozen=True, slots=True)
class _Step:
    """Name what a group of rows has more in one snapshot than in the one before."""

    group: view.Group
    pieces: Pieces
    """The offsets that come with the step."""
    before: _Seen
    after: _Seen

    @property
    def faults(self) -> list[HeadwaterError]:
        """Return why the rows could not be read."""
        found = [each.rows.get(self.group, GroupRows()).fault for each in (self.before, self.after)]
        return [fault for fault in found if fault is not None]

    @property
    def found(self) -> Digest:
        """Return what the rows of the step add up to."""
        now, then = (
            each.rows.get(self.group, GroupRows()).digest for each in (self.after, self.before)
        )
        return now - then

    @property
    def bucket(self) -> LakeBucket:
        """Return a bucket that stands for the group."""
        return min(self.pieces, key=str, default=LakeBucket(None, max(self.group.bucket, 0)))


class LogRowCheck:
    """Compare the lake table of a log table with its log."""

    def __init__(
        self, looked: view.LakeView, source: LakeSource, say: view.LakeFindings, notes: Notes
    ) -> None:
        hasher = RowHasher([column.type for column in looked.table.schema.columns])
        self._looked = looked
        self._say = say
        self._notes = notes
        self._source = source
        self._lake = LakeReading(source, hasher, is_keyed=False)
        self._log = LogReading(looked, hasher)
        self._searching = EvidenceSearch(self._log, self._lake, hasher)
        self._grouping = view.Grouping(looked, ())
        self._parts: dict[LakeBucket, LogParts] = {}
        self._proven = self._unproven = 0

    async def prove(self) -> None:
        """Compare.

        1. Read each log once, in parts that snapshots end with. 2. For each snapshot, oldest first,
        compare what it has more than the one before with the part of the log that it adds.
        """
        line = view.thinned([each for each in self._looked.line if each.has_starts], SNAPSHOTS_MAX)
        if not line:
            return
        newest = await self._splits(line[-1])
        self._grouping = view.Grouping(self._looked, newest)
        await self._read_logs(line)
        before = _Seen(None, {})
        for held in line:
            self._notes.progress(f"{self._say.path}: comparing lake snapshot {held.snapshot_id}")
            splits = newest if held is line[-1] else await self._splits(held)
            after = _Seen(held, await self._lake.of(splits, self._grouping))
            await self._compare(before, after)
            before = after
        self._notes.proven(
            Proof(
                check=_CHECK,
                table=str(self._say.path),
                amount=self._proven,
                note=f"{self._unproven} rows are no longer in the log" if self._unproven else "",
            )
        )

    # ---- reading

    async def _splits(self, held: view.SnapshotExtent) -> Sequence[LakeSplit]:
        return await aside(self._source.plan, held.snapshot_id)

    async def _read_logs(self, line: Sequence[view.SnapshotExtent]) -> None:
        for bucket, log in self._looked.logs.items():
            ranges = [held.ranges[bucket] for held in line if bucket in held.ranges]
            edges = {edge for each in ranges for edge in (each.start, each.end)}
            cuts = sorted(edge for edge in edges if log.start <= edge <= log.end)
            try:
                self._parts[bucket] = await self._log.parts(bucket, cuts)
            except OffsetOutOfRangeError:
                continue  # Retention was faster: these rows are no longer in the log.
            except HeadwaterError as fault:
                # Whoever audits the log says what is wrong with it.
                self._notes.bad(
                    self._say.bucket(
                        Check.READABLE,
                        bucket,
                        f"The log cannot be compared with the lake: {fault.message}",
                        remedy=fault.hint,
                    )
                )

    # ---- comparing

    async def _compare(self, before: _Seen, after: _Seen) -> None:
        assert after.held is not None
        ranges = self._grouping.ranges(after.held)
        for group in sorted({*ranges, *after.rows, *before.rows}, key=str):
            pieces = dict(_pieces(ranges.get(group, {}), before.held))
            step = _Step(group, pieces, before, after)
            wanted = self._wanted(pieces)
            if step.faults:
                self._unreadable(step.faults[-1])
            elif wanted is None:
                await self._compare_rest(step)
            elif step.found == wanted:
                self._proven += wanted.count
            elif before.held is not None or pieces:
                await self._accuse(step)

    def _wanted(self, pieces: Pieces) -> Digest | None:
        """Return what parts of logs add up to; None if a log does not hold its part any more."""
        total = NOTHING
        for bucket, piece in pieces.items():
            if piece.start >= piece.end:
                continue
            parts = self._parts.get(bucket)
            if parts is None or not {piece.start, piece.end} <= set(parts.cuts):
                return None
            total = total + parts.between(piece.start, piece.end)
        return total

    async def _compare_rest(self, step: _Step) -> None:
        """See that the lake has at least the rows that logs still hold of their parts."""
        left = dict(self._left(step.pieces))
        offsets = _length(left)
        self._unproven += _length(step.pieces) - offsets
        if not left or _rows(step) > ROWS_MAX:
            self._unproven += offsets
            return
        parts = await self._parts_of(step.group, step.after.held)
        try:
            evidence = await self._searching.missing_of_log(left, held=parts.values())
        except OffsetOutOfRangeError:
            self._unproven += offsets  # Retention was faster.
            return
        self._proven += offsets
        if evidence.difference.missing_count:
            self._bad(step, evidence)

    def _left(self, pieces: Pieces) -> Iterator[tuple[LakeBucket, OffsetRange]]:
        for bucket, piece in pieces.items():
            log = self._looked.logs.get(bucket)
            if log is not None and max(piece.start, log.start) < min(piece.end, log.end):
                yield (
                    bucket,
                    OffsetRange(max(piece.start, log.start), min(piece.end, log.end)),
                )

    def _unreadable(self, fault: HeadwaterError) -> None:
        finding = self._say.fault(Check.LAKE_FILES, fault)
        if finding not in self._notes.findings:
            self._notes.bad(finding)

    async def _accuse(self, step: _Step) -> None:
        try:
            evidence = await self._evidence(step)
        except HeadwaterError as fault:
            self._unreadable(fault)
            return
        self._bad(step, evidence)

    def _bad(self, step: _Step, evidence: Evidence) -> None:
        held, before = step.after.held, step.before.held
        assert held is not None
        is_foreign = not held.is_own or _is_left_over(step, evidence)
        since = "" if before is None else f" since snapshot {before.snapshot_id}"
        self._notes.bad(
            self._say.bucket(
                _CHECK,
                evidence.bucket or step.bucket,
                f"What came to {step.group} of lake snapshot {held.snapshot_id}{since} is not what"
                f" the log says: it {evidence.text}.",
                offset=evidence.offset,
                severity=Severity.WARNING if is_foreign else Severity.ERROR,
                remedy="Others changed the lake table, or left rows of an earlier partition there."
                if is_foreign
                else "Go back to a snapshot before it, or tier what the log still holds anew:"
                f" headwater lake drop {self._say.path}, then headwater tier {self._say.path}"
                " --begin-anew",
            )
        )

    async def _evidence(self, step: _Step) -> Evidence:
        if _rows(step) > ROWS_MAX:
            return Evidence(difference([], []))
        now = await self._parts_of(step.group, step.after.held)
        then = await self._parts_of(step.group, step.before.held)
        return await self._searching.of_log(
            step.pieces,
            added=[part for key, part in now.items() if key not in then],
            left=[part for key, part in then.items() if key not in now],
        )

    async def _parts_of(
        self, group: view.Group, held: view.SnapshotExtent | None
    ) -> dict[tuple[str, tuple[str, ...]], LakeSplit]:
        splits = [] if held is None else await self._splits(held)
        return {
            (part.files[0].path, part.files[0].deletes): part
            for split in splits
            if self._grouping.of_split(split) == group
            for part in self._lake.parts(split)
        }


def _is_left_over(step: _Step, evidence: Evidence) -> bool:
    """Tell whether rows may be those of an earlier partition of the same name.

    The log does not know them then. Of rows that it knows, it is said that they came twice, though
    an earlier partition may have held the very same.
    """
    is_first = step.before.held is None and step.group.partition is not None
    return is_first and not evidence.difference.missing_count and not evidence.is_known


def _rows(step: _Step) -> int:
    return step.after.rows.get(step.group, GroupRows()).digest.count


def _length(pieces: Pieces) -> int:
    return sum(piece.end - piece.start for piece in pieces.values())


def _pieces(
    ranges: Mapping[LakeBucket, OffsetRange], before: view.SnapshotExtent | None
) -> Iterator[tuple[LakeBucket, OffsetRange]]:
    """Yield the offsets that a snapshot has more than the one before."""
    for bucket, held in ranges.items():
        earlier = None if before is None else before.ranges.get(bucket)
        yield bucket, OffsetRange(held.start if earlier is None else earlier.end, held.end)
