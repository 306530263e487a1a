"""How fast tables grow: two looks at their ends, and what lies between."""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.cli.output import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Hold what one look at all tables showed."""

    at_s: float
    ends: Mapping[str, int]
    """The sum of the log ends of each table."""
    lags: Mapping[str, Mapping[str, int | None]]
    """For each table its cursors, and how many rows each has not read."""


def growth(before: Sight | None, now: Sight) -> list[Document]:
    """Return a row for each table, the busiest first."""
    rows = [_row(table, before, now) for table in now.ends]
    return sorted(rows, key=lambda row: (-float(str(row["rows_per_s"] or 0)), str(row["table"])))


def _row(table: str, before: Sight | None, now: Sight) -> Document:
    cursors = now.lags.get(table, {})
    known = [lag for lag in cursors.values() if lag is not None]
    return {
        "table": table,
        "rows_per_s": _rate(table, before, now),
        "end": now.ends[table],
        "cursors": len(cursors),
        "lag_rows": max(known, default=None),
        "slowest_cursor": max(
            (name for name in cursors if cursors[name] is not None),
            key=lambda name: cursors[name] or 0,
            default=None,
        ),
    }


def _rate(table: str, before: Sight | None, now: Sight) -> float | None:
    if before is None or table not in before.ends or now.at_s <= before.at_s:
        return None
    # A table that was dropped and made again ends earlier than before.
    grown = max(0, now.ends[table] - before.ends[table])
    return round(grown / (now.at_s - before.at_s), 1)
