"""How much of a plan gives as many rows as are wanted."""

from collections.abc import Sequence

from headwater.client.union.split import Pruned, Tier, UnionSplit


def enough(
    splits: Sequence[UnionSplit], limit: int, *, is_keyed: bool
) -> tuple[list[UnionSplit], list[Pruned]]:
    """Return splits that hold so many rows for certain, or all of them, and what is left out."""
    counts = {id(split): rows_at_least(split, is_keyed=is_keyed) for split in splits}
    # Those first of which it is known how many rows they hold.
    ordered = sorted(splits, key=lambda split: counts[id(split)] == 0)
    kept, rows = list[UnionSplit](), 0
    for split in ordered:
        if rows >= limit:
            break
        kept.append(split)
        rows += counts[id(split)]
    left = ordered[len(kept) :]
    if not left:
        return list(splits), []
    return kept, [_left_out(left, limit)]


def rows_at_least(split: UnionSplit, *, is_keyed: bool) -> int:
    """Return how many rows a split holds for certain."""
    match split.tier:
        case Tier.LOG_ONLY:
            assert split.log is not None
            return 0 if is_keyed else split.log.end - split.log.start
        case Tier.LAKE_ONLY:
            assert split.lake is not None
            return sum(
                file.row_count
                for file in split.lake.files
                if file.stands_alone and not file.deletes
            )
        case Tier.HYBRID:
            return 0


def _left_out(splits: Sequence[UnionSplit], limit: int) -> Pruned:
    lake = [split.lake for split in splits if split.lake is not None]
    logs = [split.log for split in splits if split.log is not None]
    return Pruned(
        what=f"{len(splits)} split{'s' if len(splits) > 1 else ''}",
        why=f"the others hold {limit} rows",
        row_count=sum(each.row_count for each in lake) + sum(log.end - log.start for log in logs),
        byte_count=sum(file.byte_count for each in lake for file in each.files),
    )
