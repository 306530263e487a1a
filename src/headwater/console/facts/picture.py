"""Pictures of tiers as plain rectangles, which templates draw: no script, no style of their own."""

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.read.explain import BucketReading, Explanation

WIDE = 100.0
LINES_MAX = 40
_HIGH = 10.0
_SLIM = 0.4
"""The width below which nothing would be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBar:
    """A rectangle of a kind, and what to say about it."""

    kind: str
    x: float
    width: float
    label: str
    y: float = 0.0
    height: float = _HIGH


@dataclass(frozen=True, slots=True)
class Strip:
    """Rectangles beside each other, and what they say together."""

    bars: tuple[TierBar, ...]
    label: str


def log_strip(earliest: int, tiered: int | None, latest: int, *, scale: int) -> Strip:
    """Draw the offsets of a log: those only in the lake, in both, only in the log."""
    per_offset = WIDE / max(scale, 1)
    if tiered is None:
        parts = [("log", earliest, latest, "log")]
    else:
        middle = min(max(tiered, earliest), latest)
        parts = [
            ("lake", 0, min(earliest, tiered), "only in the lake"),
            ("gone", min(earliest, tiered), earliest, "deleted from the log"),
            ("both", earliest, middle, "in lake and log"),
            ("log", middle, latest, "only in the log"),
        ]
    bars = tuple(
        TierBar(
            kind=kind,
            x=round(start * per_offset, 3),
            width=round(max((end - start) * per_offset, _SLIM), 3),
            label=f"{start:,} to {end:,}: {what}",
        )
        for kind, start, end, what in parts
        if end > start
    )
    return Strip(bars, "; ".join(bar.label for bar in bars) or "empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLine:
    """What a read takes of one bucket, as a strip."""

    name: str
    tiers: str
    strip: Strip
    reading: BucketReading


def tier_lines(explanation: Explanation) -> tuple[TierLine, ...]:
    """Draw what a read takes from lake and log, bucket by bucket on one scale."""
    readings = explanation.buckets[:LINES_MAX]
    most = max((each.file_rows + each.offset_count for each in readings), default=0)
    return tuple(_tier_line(each, most) for each in readings)


def _tier_line(each: BucketReading, most: int) -> TierLine:
    partition = f"{each.partition} / " if each.partition else ""
    bucket = "any bucket" if each.bucket < 0 else f"bucket {each.bucket}"
    return TierLine(
        name=f"{partition}{bucket}",
        tiers=" + ".join(tier.lower().replace("_", " ") for tier in map(str, each.tiers)),
        strip=_reading_strip(each, most),
        reading=each,
    )


def _reading_strip(each: BucketReading, most: int) -> Strip:
    per_row = WIDE / max(most, 1)
    files = f"{each.file_rows:,} rows of {each.file_count} files in the lake"
    log = f"{each.offset_count:,} offsets of the log"
    if each.log is not None:
        log += f", {each.log.start:,} to {each.log.end:,}"
    if each.reads_state:
        return Strip(
            (TierBar(kind="both", x=0, width=WIDE, label="rows as the server holds them"),), ""
        )
    parts = [("lake", each.file_rows, files), ("log", each.offset_count, log)]
    return Strip(tuple(_beside(parts, per_row)), "; ".join(text for _, rows, text in parts if rows))


def _beside(parts: Iterable[tuple[str, int, str]], per_row: float) -> Iterable[TierBar]:
    x = 0.0
    for kind, rows, text in parts:
        if rows:
            width = max(rows * per_row, _SLIM)
            yield TierBar(kind=kind, x=round(x, 3), width=round(width, 3), label=text)
            x += width
