"""Commit a round: look, decide, try; and again where others were quicker or nobody knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from headwater import errors
from headwater.lake.spi import LakeCommitter, LakeSnapshot, WriteResult
from headwater.model import Boundary
from headwater.runtime.clock import Clock
from headwater.runtime.tasks import aside

# What to do with a commit, given the newest snapshot of the lake.


@dataclass(frozen=True, slots=True)
class CommitAfter:
    """Try to commit directly after this snapshot."""

    on: LakeSnapshot | None


@dataclass(frozen=True, slots=True)
class Adopt:
    """Take the round as done: this snapshot holds it."""

    snapshot: LakeSnapshot


@dataclass(frozen=True, slots=True)
class Fenced:
    """Stop: somebody whose turn came later has committed."""

    by: Boundary


@dataclass(frozen=True, slots=True)
class Differs:
    """Stop: the lake table now belongs to another table."""

    found: Boundary


@dataclass(frozen=True, slots=True)
class Moved:
    """Plan anew: the lake holds other offsets than the round was planned from."""

    found: Boundary | None


Decision: TypeAlias = CommitAfter | Adopt | Fenced | Differs | Moved


def decide(
    wanted: Boundary,
    *,
    held: Boundary | None,
    head: LakeSnapshot | None,
    found: LakeSnapshot | None,
) -> Decision:
    """Decide about a round that wants a boundary in place of the one that it was planned from.

    `found` is the snapshot of the round, if one was found in the history of the lake table.
    """
    if found is not None:
        return Adopt(found)
    now = None if head is None else head.boundary
    if head is not None and now is not None:
        if now.round_id == wanted.round_id:
            # Of a snapshot that came on top of it, and carries its boundary on.
            return Adopt(head)
        if now.table != wanted.table:
            return Differs(now)
        if now.epoch > wanted.epoch:
            return Fenced(now)
    return CommitAfter(head) if _ranges(now) == _ranges(held) else Moved(now)


def _ranges(boundary: Boundary | None) -> object:
    return {} if boundary is None else dict(boundary.ranges)


# Committing a round: look, decide, try; and again where others were quicker or nobody knows.

ATTEMPTS_MAX = 8
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Hold what a round wants to make visible."""

    held: Boundary | None
    """The boundary that the round was planned from."""
    boundary: Boundary
    """The one that it wants in its place."""
    results: Sequence[WriteResult] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class Commitment:
    """Commit one round, at most once however often it is tried."""

    def __init__(self, committer: LakeCommitter, proposal: Proposal, *, clock: Clock) -> None:
        self._committer = committer
        self._proposal = proposal
        self._clock = clock
        # Snapshots on which an attempt may have succeeded without our knowing.
        self._unknown: list[LakeSnapshot | None] = []

    async def commit(self) -> LakeSnapshot:
        """Return the snapshot that holds the round.

        1. Look at the newest snapshot, and for the round. 2. Decide. 3. Try, if that is the
        decision. 4. After a pause look again, if others were quicker or the outcome is unknown.
        """
        fault: errors.HeadwaterError = errors.LakeCommitUnknownError("No commit was attempted.")
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                await self._clock.sleep(min(PAUSE_FIRST_S * 2 ** (attempt - 1), PAUSE_MAX_S))
            try:
                outcome = await self._attempt()
            except errors.LakeUnreachableError as unreachable:
                outcome = unreachable
            if isinstance(outcome, LakeSnapshot):
                return outcome
            fault = outcome
        if not self._unknown:
            await self._abort()
        raise fault

    async def _attempt(self) -> LakeSnapshot | errors.HeadwaterError:
        proposal, committer = self._proposal, self._committer
        head = await aside(committer.head)
        found = await aside(committer.find_round, proposal.boundary.round_id)
        match decide(proposal.boundary, held=proposal.held, head=head, found=found):
            case Adopt(snapshot):
                return snapshot
            case CommitAfter(on):
                return await self._try(on)
            case Fenced() | Differs() | Moved() as refusal:
                raise await self._given_up(refusal, head)
            case other:
                assert_never(other)

    async def _try(self, on: LakeSnapshot | None) -> LakeSnapshot | errors.HeadwaterError:
        # Until we know better: we may be cancelled, or the lake may vanish in the middle of it.
        self._unknown.append(on)
        proposal = self._proposal
        try:
            return await aside(
                self._committer.commit,
                proposal.results,
                boundary=proposal.boundary,
                on=on,
                properties=proposal.properties,
            )
        except errors.LakeMovedError as fault:
            self._unknown.pop()
            return fault
        except errors.LakeRewrittenError:
            self._unknown.pop()
            if not self._unknown:
                await self._abort()
            raise
        except (errors.LakeCommitUnknownError, errors.LakeUnreachableError) as fault:
            return fault

    async def _given_up(
        self, refusal: Fenced | Differs | Moved, head: LakeSnapshot | None
    ) -> errors.HeadwaterError:
        # An attempt whose outcome is unknown cannot succeed any more once its place is taken.
        if all(_id(head) != _id(on) for on in self._unknown):
            await self._abort()
        return _fault(refusal, self._proposal.boundary)

    async def _abort(self) -> None:
        await aside(self._committer.abort, self._proposal.results)


def _id(snapshot: LakeSnapshot | None) -> int | None:
    return None if snapshot is None else snapshot.snapshot_id


def _fault(refusal: Fenced | Differs | Moved, wanted: Boundary) -> errors.HeadwaterError:
    match refusal:
        case Fenced(by):
            return errors.TieringFencedError(
                f"Epoch {by.epoch.coordinator}.{by.epoch.turn} committed to the lake while"
                f" {wanted.epoch.coordinator}.{wanted.epoch.turn} was running."
            )
        case Differs(found):
            return errors.LakeTableDiffersError(
                f"The lake table now belongs to table {found.table.table_id} of storage"
                f" '{found.table.storage}'.",
                hint="Another storage tiers into this lake: rename or drop the lake table, or use"
                " another warehouse.",
            )
        case Moved():
            return errors.BoundaryMovedError(
                "Others tiered the table, or put an older snapshot in place."
            )
        case other:
            assert_never(other)
