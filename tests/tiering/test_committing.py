"""Committing a round, however the lake behaves."""

import pytest

from headwater.errors import (
    BoundaryMovedError,
    LakeCommitUnknownError,
    LakeMovedError,
    LakeRewrittenError,
    LakeUnreachableError,
    TieringFencedError,
)
from headwater.lake.spi import WriteResult
from headwater.model.boundary import TieringEpoch
from headwater.tiering.commit import ATTEMPTS_MAX, Commitment, Proposal
from tests.clocks import InstantClock
from tests.tiering.values import EPOCH, boundary, snapshot

HELD = boundary({0: (0, 4)}, epoch=TieringEpoch(1, 4), round_id="before")
WANTED = boundary({0: (0, 9)}, round_id="mine")
RESULT = WriteResult(partition=(), bucket=0, row_count=5, file_count=1, byte_count=100, payload=b"")
FENCING = boundary({0: (0, 4)}, epoch=TieringEpoch(1, 9), round_id="theirs")


class ScriptedLake:
    """Commit as a script says: a step for each attempt, the last one over and over."""

    def __init__(self, *script):
        self.snapshots = [snapshot(1, HELD)]
        self.script = list(script)
        self.attempts = 0
        self.aborted = []

    def head(self):
        return self.snapshots[-1]

    def find_round(self, round_id):
        found = [each for each in self.snapshots if each.boundary.round_id == round_id]
        return found[0] if found else None

    def commit(self, results, *, boundary, on, properties):
        self.attempts += 1
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return step(self, boundary)

    def abort(self, results):
        self.aborted += results

    def put(self, held):
        self.snapshots.append(snapshot(len(self.snapshots) + 1, held))
        return self.snapshots[-1]


def succeed(lake, wanted):
    return lake.put(wanted)


def succeed_unheard(lake, wanted):
    lake.put(wanted)
    raise LakeCommitUnknownError("The connection broke.")


def fail_unheard(lake, wanted):
    raise LakeCommitUnknownError("The connection broke.")


def vanish(lake, wanted):
    raise LakeUnreachableError("The lake cannot be reached.")


def lose_to(held):
    def lose(lake, wanted):
        lake.put(held)
        raise LakeMovedError("Others were quicker.")

    return lose


def vanish_behind(held):
    def lose(lake, wanted):
        lake.put(held)
        raise LakeCommitUnknownError("The connection broke.")

    return lose


def rewritten(lake, wanted):
    raise LakeRewrittenError("The files are gone.")


async def committed(lake):
    proposal = Proposal(held=HELD, boundary=WANTED, results=[RESULT])
    return await Commitment(lake, proposal, clock=InstantClock()).commit()


async def test_a_commit_that_succeeds_is_tried_once():
    lake = ScriptedLake(succeed)

    assert (await committed(lake)).boundary == WANTED
    assert lake.attempts == 1
    assert lake.aborted == []


async def test_a_commit_that_succeeded_unheard_is_adopted_and_not_tried_again():
    lake = ScriptedLake(succeed_unheard)

    assert (await committed(lake)).snapshot_id == 2
    assert lake.attempts == 1


async def test_a_commit_that_failed_unheard_is_tried_again():
    lake = ScriptedLake(fail_unheard, vanish, succeed)

    assert (await committed(lake)).boundary == WANTED
    assert lake.attempts == 3


async def test_a_commit_goes_on_top_of_a_snapshot_that_carries_the_boundary_on():
    lake = ScriptedLake(lose_to(HELD), succeed)

    assert (await committed(lake)).snapshot_id == 3


async def test_a_fenced_round_fails_and_its_files_go():
    lake = ScriptedLake(lose_to(FENCING))

    with pytest.raises(TieringFencedError):
        await committed(lake)

    assert lake.aborted == [RESULT]


async def test_a_round_that_lost_to_another_fails_and_its_files_go():
    lake = ScriptedLake(lose_to(boundary({0: (0, 6)}, epoch=EPOCH, round_id="theirs")))

    with pytest.raises(BoundaryMovedError):
        await committed(lake)

    assert lake.aborted == [RESULT]


async def test_files_of_an_unknown_outcome_stay_as_long_as_it_may_still_succeed():
    lake = ScriptedLake(fail_unheard)

    with pytest.raises(LakeCommitUnknownError):
        await committed(lake)

    assert lake.attempts == ATTEMPTS_MAX
    assert lake.aborted == []


async def test_files_of_an_unknown_outcome_go_once_their_place_is_taken():
    lake = ScriptedLake(vanish_behind(FENCING))

    with pytest.raises(TieringFencedError):
        await committed(lake)

    assert lake.aborted == [RESULT]


async def test_a_round_whose_files_were_rewritten_fails_and_its_files_go():
    lake = ScriptedLake(rewritten)

    with pytest.raises(LakeRewrittenError):
        await committed(lake)

    assert lake.aborted == [RESULT]


async def test_a_round_that_others_are_always_ahead_of_gives_up_in_the_end():
    lake = ScriptedLake(lose_to(HELD))

    with pytest.raises(LakeMovedError):
        await committed(lake)

    assert lake.attempts == ATTEMPTS_MAX
    assert lake.aborted == [RESULT]
