"""Bugs that a person could have made, one at a time, to see that the simulation finds them."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from headwater.errors import TieringFencedError
from headwater.lake.spi import LakeSnapshot
from headwater.log.log import Log
from headwater.log.recovery import _Recovery
from headwater.log.scan import Scanned
from headwater.log.state import LogState
from headwater.log.writers import Writers
from headwater.read.position import _Look
from headwater.server import upkeep
from headwater.tablet.group_commit import GroupCommit
from headwater.tablet.log_tablet import LogTablet
from headwater.tablet.state_read import DURABLE, Unsynced
from headwater.tiering import commit as committing
from headwater.tiering import plan
from headwater.tiering.commit import CommitAfter
from headwater.tiering.plan import RoundPlan
from headwater.tiering.round import Tierer
from tests.simulation import world
from tests.simulation.plan import Plan, drawn_plan

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Answer writers as soon as their rows are written."""

    async def durable(commit: GroupCommit, _end_offset: int) -> None:
        commit.request()

    patch.setattr(GroupCommit, "durable", durable)


def shown_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Let readers see rows that a crash may take away."""
    patch.setattr(LogTablet, "high_watermark", property(lambda tablet: tablet.log.end_offset))


def synced_with_what_came_meanwhile(patch: pytest.MonkeyPatch) -> None:
    """Count what is written while a sync runs as synced by it."""
    sync = LogState.sync

    def overeager(state: LogState, **named: object) -> object:
        covered = sync(state, **named)
        state.synced_offset = max(state.synced_offset, state.shape.active.tail.offset)
        return covered

    patch.setattr(LogState, "sync", overeager)


def looked_up_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Let lookups see rows that a crash may take away."""
    patch.setattr(Unsynced, "offset_for", lambda _unsynced, _locations: DURABLE)


def last_batch_not_recovered(patch: pytest.MonkeyPatch) -> None:
    """Cut the last batch off when a log is opened, as if it were torn."""
    scan = _Recovery._scan

    def shorter(recovery: _Recovery, *args: object) -> Scanned:
        scanned = scan(recovery, *args)
        *earlier, last = scanned.marks
        return replace(scanned, tail=last) if earlier else scanned

    patch.setattr(_Recovery, "_scan", shorter)


def resend_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """Write a batch of rows again that was written before."""
    patch.setattr(Writers, "resent", lambda _writers, _headers: ())


def resent_put_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """Write a batch of rows by key again that was written before."""
    patch.setattr(Log, "resent", lambda _log, _writer_id, _sequence: None)


def writers_not_recovered(patch: pytest.MonkeyPatch) -> None:
    """Forget at a restart which batches of writers are there already."""
    patch.setattr(_Recovery, "_visit", lambda _recovery, _header, _batch: None)


def log_cut_before_it_is_tiered(patch: pytest.MonkeyPatch) -> None:
    """Delete old rows of a log whether the lake holds them or not."""
    patch.setattr(upkeep, "tiered_end", lambda _bucket, _ends: 2**62)


def committed_whatever_others_did(patch: pytest.MonkeyPatch) -> None:
    """Commit on top of whatever is in the lake: no fence, no comparison, no second look."""
    patch.setattr(committing, "decide", lambda _wanted, *, head, **_: CommitAfter(head))


def no_claim_where_others_may_live(patch: pytest.MonkeyPatch) -> None:
    """Write to a table that was taken from somebody without a snapshot that fences them."""
    patch.setattr(plan, "_leaves_room", lambda *_: False)


def nothing_ever_committed(patch: pytest.MonkeyPatch) -> None:
    """Give every round up when it is about to commit, as if others had the table."""

    async def commitment(_tierer: Tierer, *_: object) -> LakeSnapshot:
        raise TieringFencedError("Others have the table.")

    patch.setattr(Tierer, "_commitment", commitment)


def scan_overtaken_by_tiering(patch: pytest.MonkeyPatch) -> None:
    """Believe in two looks at lake and log, whatever went from one to the other between them.

    That is little time, so the logs give up what the lake has as soon as they may.
    """

    async def unchecked(*_: object) -> None:
        pass

    patch.setattr(_Look, "_check_not_overtaken", unchecked)
    patch.setattr(world, "drawn_plan", _hasty_plan)


def _hasty_plan(chance: Random) -> Plan:
    drawn = drawn_plan(chance)
    log = replace(drawn.setup.storage.log, segment_bytes_max=64)
    setup = replace(
        drawn.setup,
        server=replace(drawn.setup.server, retention_check_interval_s=0.05),
        storage=replace(drawn.setup.storage, log=log),
    )
    return replace(drawn, has_lake=True, log_ttl_ms=2_000, work_s=0.05, setup=setup)


def boundary_left_behind(patch: pytest.MonkeyPatch) -> None:
    """Commit rows under the boundary that was there before them."""

    def boundary(planned: RoundPlan, _done: object, **new: object) -> object:
        return replace(planned.kept, **new)

    patch.setattr(RoundPlan, "boundary", boundary)


def boundary_put_ahead(patch: pytest.MonkeyPatch) -> None:
    """Promise in the boundary one offset more than the rows that are there."""
    extended = RoundPlan.boundary

    def boundary(planned: RoundPlan, done: object, **new: object) -> object:
        right = extended(planned, done, **new)
        ranges = {bucket: replace(each, end=each.end + 1) for bucket, each in right.ranges.items()}
        return replace(right, ranges=ranges)

    patch.setattr(RoundPlan, "boundary", boundary)


# Each with a seed that found it, so that few have to be tried.
BUGS: dict[Plant, int] = {
    acknowledged_before_the_sync: 10,
    shown_before_the_sync: 47,
    synced_with_what_came_meanwhile: 6,
    looked_up_before_the_sync: 38,
    last_batch_not_recovered: 7,
    resend_not_recognised: 1,
    resent_put_not_recognised: 10,
    writers_not_recovered: 10,
    log_cut_before_it_is_tiered: 5,
    committed_whatever_others_did: 19,
    no_claim_where_others_may_live: 58,
    nothing_ever_committed: 1,
    scan_overtaken_by_tiering: 173,
    boundary_left_behind: 1,
    boundary_put_ahead: 1,
}
# One seed in about fifty finds them, and whenever the code around them changes it is another one:
# only the full run looks for them.
RARE = {no_claim_where_others_may_live, scan_overtaken_by_tiering}
