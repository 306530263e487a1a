"""The numbers that writers give their batches: whether one may stand behind another."""

from enum import Enum, auto

from headwater.log.writers import next_sequence

FORGOTTEN_AFTER_MS_MIN = 60 * 60 * 1000
"""No server forgets a writer that sent something more recently."""
LOOK_AT_WRITERS = "Nothing is known to be lost. Look at what its writers told at that time."


class Following(Enum):
    """Say how a batch stands behind the one that its writer sent before."""

    NEXT = auto()
    ANEW = auto()
    """From 0: a writer that was silent for long is forgotten, and may begin anew."""
    TWICE = auto()
    GAP = auto()


def following(sequence: int, *, last: int, silent_ms: int) -> Following:
    """Tell how a number stands behind the last one, after so much silence."""
    if sequence == next_sequence(last):
        return Following.NEXT
    # Twice the first one, at once, is nobody's beginning.
    if sequence == 0 and (last > 0 or silent_ms >= FORGOTTEN_AFTER_MS_MIN):
        return Following.ANEW
    return Following.TWICE if sequence <= last else Following.GAP


def anew_text(writer_id: int, *, offset: int, last: int) -> str:
    """Say that a writer begins anew."""
    return (
        f"The batch at offset {offset} is number 0 of writer {writer_id}, and stands behind number"
        f" {last}: the writer began anew, as those do that were forgotten."
    )
