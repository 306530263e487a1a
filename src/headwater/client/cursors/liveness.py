"""Who lives: a member is dead when its heartbeat did not move for a lease on the clock of here.

No clock of another machine is read, so none has to be right. Being wrong about it costs rows that
are read twice and never a position: that is guarded by generations.
"""

from dataclasses import dataclass, replace

from headwater.client.cursors.view import GroupView

_NO_HEARTBEAT = -1


@dataclass(frozen=True, slots=True)
class _Sighting:
    heartbeat: int
    since_s: float
    lease_s: float


class Liveness:
    """Remember when each heartbeat last moved."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._seen: dict[str, _Sighting] = {}

    def observe(self, view: GroupView, now_s: float) -> None:
        """Take note of the heartbeats that a view shows."""
        owners = {slot.owner for slot in view.slots.values() if slot.owner is not None}
        self._seen = {
            name: self._sighting(name, view, now_s) for name in owners | view.members.keys()
        }

    def is_alive(self, name: str, now_s: float) -> bool:
        """Tell whether a member may still be at work; one that was never seen is not."""
        seen = self._seen.get(name)
        return seen is not None and now_s - seen.since_s <= seen.lease_s

    def _sighting(self, name: str, view: GroupView, now_s: float) -> _Sighting:
        member, before = view.members.get(name), self._seen.get(name)
        if member is None:
            # An owner whose row is gone gives no sign of life; one never seen gets a lease.
            return before or _Sighting(_NO_HEARTBEAT, now_s, self._lease_s)
        if before is not None and before.heartbeat == member.heartbeat:
            return replace(before, lease_s=member.lease_ms / 1000)
        return _Sighting(member.heartbeat, now_s, member.lease_ms / 1000)
