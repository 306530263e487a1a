"""Deciding which snapshots of a lake table go."""

from collections.abc import Sequence
from typing import Protocol

from headwater.lake.spi import Retention
from headwater.model.boundary import Boundary


class Aged(Protocol):
    """What is asked of a snapshot."""

    @property
    def snapshot_id(self) -> int:
        """Return the id."""
        ...

    @property
    def committed_ms(self) -> int:
        """Return when it was committed."""
        ...

    @property
    def own_boundary(self) -> Boundary | None:
        """Return the boundary that it carries itself."""
        ...


def expired_ids(
    snapshots: Sequence[Aged], retention: Retention, *, now_ms: int, next_ids: Sequence[int] = ()
) -> list[int]:
    """Return the ids of snapshots to drop, out of all of them, oldest first.

    Snapshots go from the oldest on without a gap. Those stay that consumers still want, and the
    last one that tells the boundary of all that follow.
    """
    end = max(len(snapshots) - max(retention.snapshots_min, 1), 0)
    oldest_ms = now_ms - retention.age_ms
    wanted = min(next_ids, default=None)
    for at, snapshot in enumerate(snapshots[:end]):
        if snapshot.committed_ms > oldest_ms or (
            wanted is not None and snapshot.snapshot_id >= wanted
        ):
            end = at
            break
    return [each.snapshot_id for each in snapshots[: _telling(snapshots, end)]]


def _telling(snapshots: Sequence[Aged], end: int) -> int:
    """Return where to stop at the latest so that the first one kept knows its boundary."""
    tells = [at for at in range(end + 1) if at < len(snapshots) and snapshots[at].own_boundary]
    return tells[-1] if tells else end
