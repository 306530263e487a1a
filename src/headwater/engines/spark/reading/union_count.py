"""How many rows splits of lake and log have, where their files and offsets tell exactly."""

from collections.abc import Iterable

from headwater.client.union.split import UnionSplit
from headwater.lake.split import LakeSplit


def exact_rows(splits: Iterable[UnionSplit], *, is_keyed: bool) -> int | None:
    """Return how many rows all splits have together, or None where only reading tells."""
    total = 0
    for split in splits:
        if is_keyed and split.log is not None:
            # How many keys the changes leave is not known before they are folded.
            return None
        if split.lake is not None:
            if not _is_exact(split.lake):
                return None
            total += split.lake.row_count
        if split.log is not None:
            total += split.log.end - split.log.start
    return total


def _is_exact(split: LakeSplit) -> bool:
    return all(file.stands_alone and not file.deletes for file in split.files)
