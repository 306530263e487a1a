"""All that was ever committed to a lake table, in its order, and what is wrong with that."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from headwater.model.boundary import Boundary, TieringEpoch
from headwater.model.path import TablePath


@dataclass(frozen=True, slots=True)
class Committed:
    """Hold a snapshot as it was made, and who had the right to make it."""

    table: TablePath
    parent_id: int | None
    boundary: Boundary
    fence: TieringEpoch | None = None
    """The latest epoch in which somebody had begun to write to the table by then."""

    @property
    def snapshot_id(self) -> int:
        return (self.parent_id or 0) + 1


def faults_of(commits: Iterable[Committed]) -> Iterator[str]:
    """Yield what is wrong with the commits of one table: nothing goes back, nobody is late."""
    known = list(commits)
    for before, commit in pairwise([None, *known]):
        assert commit is not None
        number, boundary = commit.snapshot_id, commit.boundary
        held = None if before is None else before.boundary
        if commit.parent_id != (None if before is None else before.snapshot_id):
            yield f"snapshot {number} stands on {commit.parent_id}, which is not the newest"
        if held is not None and boundary.epoch < held.epoch:
            yield f"snapshot {number} is of {boundary.epoch}, and comes after one of {held.epoch}"
        if held is not None and any((boundary.end(at) or 0) < held.end(at) for at in held.ranges):
            yield f"snapshot {number} ends before the one before it"
        # Upkeep carries on the boundary that it finds.
        is_round = held is None or held.round_id != boundary.round_id
        if is_round and commit.fence is not None and commit.fence > boundary.epoch:
            yield f"snapshot {number} of {boundary.epoch} is late: {commit.fence} writes already"
