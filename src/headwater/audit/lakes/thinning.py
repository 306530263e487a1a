"""A few snapshots that stand for many."""

from collections.abc import Sequence

from headwater.audit.lakes.looked import Held


def thinned(line: Sequence[Held], count_max: int) -> list[Held]:
    """Return the oldest and the newest snapshots, if there are too many."""
    if len(line) <= count_max:
        return list(line)
    return [line[0], *line[-(count_max - 1) :]]
