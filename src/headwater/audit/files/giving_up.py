"""What a log with a hole can do without: all behind it, or all before it that a lake holds."""

from dataclasses import dataclass

from headwater.model.bucket import OffsetRange


@dataclass(frozen=True, slots=True)
class WayOut:
    """Hold the option of `headwater repair` that gets a log out of a hole, and what it means."""

    option: str
    meaning: str


def way_out(hole: OffsetRange, *, tiered_end: int) -> WayOut:
    """Return how to go on from a hole, of a bucket that the lake holds up to an offset."""
    if hole.start >= tiered_end:
        return WayOut(f"--cut-at {hole.start}", f"to give up offset {hole.start} and all after it")
    if hole.end <= tiered_end:
        return WayOut(
            f"--begin-at {hole.end}",
            f"as the lake holds these offsets, to let the log begin behind them, at {hole.end}",
        )
    return WayOut(
        f"--cut-at {tiered_end}",
        f"as the lake holds offsets up to {tiered_end}, to go on from there with an empty log, and"
        " give up all after it",
    )
