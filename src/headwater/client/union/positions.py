"""Which lake snapshot serves a position of a table; deciding only, from what others found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from headwater.client.reading.log_batch import Place
from headwater.client.union.view import ViewedSnapshot
from headwater.errors import RequestError
from headwater.model.boundary import LakeBucket

MODES = ("union", "lake", "log")
"""Read lake and log, the newest lake snapshot alone, or what the storage holds alone."""

NamedOffsets = Mapping[Place, int] | Mapping[int, int] | Mapping[Place | int, int]
"""Offsets of buckets, which are named by number where there are no partitions."""


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "token": (str, "a text that view.token() returned"),
    "snapshot_id": (int, "the number of a lake snapshot"),
    "as_of": ((datetime, int), "a datetime with a time zone, or milliseconds since 1970"),
    "offsets": (Mapping, "an offset for each bucket, such as {0: 120}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Hold the position that a caller asks for: at most one way to name it, else the newest."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    """A moment, as a datetime with a time zone or in milliseconds since 1970."""
    offsets: NamedOffsets | None = None
    mode: str = "union"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise RequestError(
                f"There is no mode '{self.mode}'.",
                hint=f"The modes are {', '.join(MODES)}.",
            )
        self._check_kinds()
        named = self._named()
        if len(named) > 1:
            raise RequestError(
                f"A position is named in {len(named)} ways: {', '.join(named)}.",
                hint="Name one of them.",
            )
        if self.mode == "lake" and named and self.snapshot_id is None:
            raise RequestError(
                f"mode='lake' reads the newest snapshot, which '{named[0]}' does not name.",
                hint="Leave one of them out, or name a 'snapshot_id'.",
            )
        if self.mode == "log" and self.snapshot_id is not None:
            raise RequestError("mode='log' reads no lake, but a 'snapshot_id' is named.")

    def _check_kinds(self) -> None:
        """Refuse what is no position, whatever types the caller's program promises."""
        given: dict[str, object] = {
            "token": self.token,
            "snapshot_id": self.snapshot_id,
            "as_of": self.as_of,
            "offsets": self.offsets,
        }
        for name, value in given.items():
            kinds, wanted = _KINDS[name]
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise RequestError(f"'{name}' is {value!r}.", hint=f"Give {wanted}.")
        if isinstance(self.as_of, datetime) and self.as_of.tzinfo is None:
            raise RequestError(
                f"'as_of' is {self.as_of}, which has no time zone.",
                hint="Give one, such as datetime(2026, 11, 16, 12, tzinfo=UTC).",
            )

    @property
    def is_newest(self) -> bool:
        """Tell whether the newest rows are asked for."""
        return not self._named()

    def _named(self) -> list[str]:
        ways = {
            "token": self.token,
            "snapshot_id": self.snapshot_id,
            "as_of": self.as_of,
            "offsets": self.offsets,
        }
        return [name for name, value in ways.items() if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Hold a position, and what the logs can still tell of it."""

    ends: Mapping[LakeBucket, int]
    """The first offset of each bucket that the position does not hold."""
    starts: Mapping[LakeBucket, int]
    """The first offset that each log holds; buckets that are not here were dropped."""
    held_from: Mapping[LakeBucket, int] = field(default_factory=dict)
    """Where the logs began when the position was taken, as far as that is known."""
    is_keyed: bool = False
    is_closed: bool = False
    """Whether the position names every bucket that had rows, so that none came later."""
    preferred: int | None = None
    """The snapshot that the position was taken with."""


def choose_snapshot(sought: Sought, kept: Sequence[ViewedSnapshot]) -> ViewedSnapshot | None:
    """Return the snapshot to read a position with: the preferred one, else the newest that serves.

    `kept` are those that the lake still has, newest first. None if no snapshot serves.
    """
    origins = origins_of(kept)
    preferred = [each for each in kept if each.snapshot_id == sought.preferred]
    return next(
        (each for each in (*preferred, *kept) if serves(each, sought, origins=origins)), None
    )


def origins_of(kept: Iterable[ViewedSnapshot]) -> dict[LakeBucket, int]:
    """Return the first offset of each bucket that ever came to the lake."""
    origins: dict[LakeBucket, int] = {}
    for snapshot in kept:
        for bucket, held in snapshot.ranges.items():
            origins[bucket] = min(held.start, origins.get(bucket, held.start))
    return origins


def serves(
    snapshot: ViewedSnapshot, sought: Sought, *, origins: Mapping[LakeBucket, int] | None = None
) -> bool:
    """Tell whether a snapshot and the logs hold together every row of a position, and no other.

    `origins` are the first offsets that ever came to the lake; without, what the snapshot tells.
    """
    known = origins_of([snapshot]) if origins is None else origins
    if snapshot.snapshot_id != sought.preferred and sought.is_closed:
        later = snapshot.ranges.keys() - sought.ends.keys()
        if any(snapshot.ranges[bucket].end for bucket in later):
            return False
    return all(
        _serves_bucket(snapshot, sought, bucket=bucket, origin=known.get(bucket))
        for bucket in sought.ends
    )


def _serves_bucket(
    snapshot: ViewedSnapshot, sought: Sought, *, bucket: LakeBucket, origin: int | None
) -> bool:
    end, start = sought.ends[bucket], sought.starts.get(bucket)
    held = snapshot.ranges.get(bucket)
    if held is None:
        return _log_serves(sought, bucket, origin=origin)
    return held.end == end or (start is not None and start <= held.end < end)


def log_alone_serves(sought: Sought, *, origins: Mapping[LakeBucket, int]) -> bool:
    """Tell whether the logs hold every row of a position without the lake."""
    return all(_log_serves(sought, bucket, origin=origins.get(bucket)) for bucket in sought.ends)


def _log_serves(sought: Sought, bucket: LakeBucket, *, origin: int | None) -> bool:
    """Tell whether the log holds all of a bucket; by key, whether its state can be worked out."""
    end, start = sought.ends[bucket], sought.starts.get(bucket)
    if end == 0:
        return True
    if start is None:
        return False
    if sought.is_keyed:
        # Servers know the rows as they are now; what happened since must still be in the log.
        return start <= end
    known = origin if origin is not None else sought.held_from.get(bucket)
    return start <= end and (known is None or start <= known)
