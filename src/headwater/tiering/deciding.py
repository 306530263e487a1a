"""What to do with a commit, given the newest snapshot of the lake."""

from dataclasses import dataclass
from typing import TypeAlias

from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import Boundary


@dataclass(frozen=True, slots=True)
class Commit:
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
    """Stop: the lake table belongs to another table by now."""

    found: Boundary


@dataclass(frozen=True, slots=True)
class Moved:
    """Plan anew: the lake holds other offsets than the round was planned from."""

    found: Boundary | None


Decision: TypeAlias = Commit | Adopt | Fenced | Differs | Moved


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
    return Commit(head) if _ranges(now) == _ranges(held) else Moved(now)


def _ranges(boundary: Boundary | None) -> object:
    return {} if boundary is None else dict(boundary.ranges)
