"""Which buckets a member gives up and which it claims: a pure function that all members share."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headwater.client.cursors.slots import bucket_order
from headwater.model.bucket import TableBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Tell of one bucket which live member has it, and whether it may be claimed now."""

    owner: str | None
    is_free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Hold what one member should do next."""

    release: tuple[TableBucket, ...]
    claim: tuple[TableBucket, ...]


def plan(me: str, live: Collection[str], seats: Mapping[TableBucket, Seat]) -> Plan:
    """Return what I give up and what I claim, so that all have the same number within one."""
    mine = divide({*live, me}, seats)[me]
    held = {bucket for bucket, seat in seats.items() if seat.owner == me}
    return Plan(
        release=tuple(sorted(held - mine, key=bucket_order)),
        claim=tuple(
            sorted((bucket for bucket in mine - held if seats[bucket].is_free), key=bucket_order)
        ),
    )


def divide(
    live: Collection[str], seats: Mapping[TableBucket, Seat]
) -> dict[str, frozenset[TableBucket]]:
    """Divide buckets among members; a bucket moves only if balance asks for it."""
    held = _held(live, seats)
    # Who has more may keep more: the odd ones out stay where they are.
    by_load = sorted(live, key=lambda name: (-len(held[name]), name))
    share, odd = divmod(len(seats), len(by_load))
    shares = {name: share + (place < odd) for place, name in enumerate(by_load)}
    given = {name: _kept(held[name], shares[name]) for name in by_load}
    kept = {bucket for buckets in given.values() for bucket in buckets}
    loose = sorted(seats.keys() - kept, key=bucket_order)
    for bucket, name in zip(loose, _openings(given, shares), strict=True):
        given[name].append(bucket)
    return {name: frozenset(buckets) for name, buckets in given.items()}


def _held(live: Collection[str], seats: Mapping[TableBucket, Seat]) -> dict[str, list[TableBucket]]:
    held: dict[str, list[TableBucket]] = {name: [] for name in live}
    for bucket in sorted(seats, key=bucket_order):
        owner = seats[bucket].owner
        if owner in held:
            held[owner].append(bucket)
    return held


def _kept(held: list[TableBucket], share: int) -> list[TableBucket]:
    """Leave out buckets at even distances: neighbours, such as a busy partition, are split."""
    surplus = max(0, len(held) - share)
    leaving = {step * len(held) // surplus for step in range(surplus)} if surplus else set()
    return [bucket for place, bucket in enumerate(held) if place not in leaving]


def _openings(given: Mapping[str, list[TableBucket]], shares: Mapping[str, int]) -> list[str]:
    """Name members with room in turns, once for each bucket that they lack."""
    turns = [
        (turn, name) for name, share in shares.items() for turn in range(share - len(given[name]))
    ]
    return [name for _, name in sorted(turns)]
