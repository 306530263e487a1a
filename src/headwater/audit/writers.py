"""Check what each writer sent: the order of its batches, and what a checkpoint remembers."""

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from headwater.log.small_files import Checkpoint
from headwater.log.writers import KeptBatch, next_sequence
from headwater.model.bucket import block_of, is_computed
from headwater.rows.log_batch import NO_WRITER, BatchHeader

FORGOTTEN_AFTER_MS_MIN = 60 * 60 * 1000
"""No server forgets a writer that sent something more recently."""
LOOK_AT_WRITERS = "Nothing is known to be lost. Check what its writers logged at that time."


class SequenceOrder(Enum):
    """How a batch relates to the previous one of its writer."""

    NEXT = auto()
    ANEW = auto()
    """From 0: a writer that was silent for long is forgotten, and may start again."""
    TWICE = auto()
    GAP = auto()


def following(sequence: int, *, last: int, silent_ms: int) -> SequenceOrder:
    """Relate a number to the last one, after so much silence."""
    if sequence == next_sequence(last):
        return SequenceOrder.NEXT
    # The first number twice in a row is not a restart.
    if sequence == 0 and (last > 0 or silent_ms >= FORGOTTEN_AFTER_MS_MIN):
        return SequenceOrder.ANEW
    return SequenceOrder.TWICE if sequence <= last else SequenceOrder.GAP


def anew_text(writer_id: int, *, offset: int, last: int) -> str:
    """Report that a writer started again."""
    return (
        f"The batch at offset {offset} is number 0 of writer {writer_id}, but follows "
        f"number {last}: the writer started again, as writers do after being forgotten."
    )


# The batches of each writer, compared with the checkpoint.


@dataclass(slots=True)
class WriterTrail:
    """Follows the writers of one log from batch to batch."""

    checkpoint: Checkpoint | None
    faults: list[tuple[int, str]] = field(default_factory=list)
    restarts: list[tuple[int, str]] = field(default_factory=list)
    """Where writers started again: worth a look, but not a fault."""
    blocks: set[int] = field(default_factory=set)
    """Blocks of which ids were used that a server had handed out."""
    _last: dict[int, tuple[int, int]] = field(default_factory=dict)
    _known: dict[int, KeptBatch] = field(default_factory=dict)
    _wanted: dict[tuple[int, int], KeptBatch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.checkpoint is not None:
            self._wanted = {
                (writer_id, kept.base_offset): kept
                for writer_id, batches in self.checkpoint.writers.items()
                for kept in batches
            }

    def take(self, header: BatchHeader, checksum: int | None) -> None:
        """Add the next batch of the log."""
        writer_id = header.writer_id
        if writer_id == NO_WRITER:
            return
        if not is_computed(writer_id):
            self.blocks.add(block_of(writer_id))
        self._follow(header)
        self._compare(header, checksum)

    def _follow(self, header: BatchHeader) -> None:
        writer_id, offset = header.writer_id, header.base_offset
        before = self._last.get(writer_id)
        self._last[writer_id] = header.sequence, header.commit_timestamp
        if before is None:
            return
        last, last_ms = before
        silent_ms = header.commit_timestamp - last_ms
        how = following(header.sequence, last=last, silent_ms=silent_ms)
        if how is SequenceOrder.ANEW:
            self.restarts.append((offset, anew_text(writer_id, offset=offset, last=last)))
        elif how is not SequenceOrder.NEXT:
            text = f"Writer {writer_id} sent batch {header.sequence} after batch {last}."
            self.faults.append((offset, text))

    def lose(self) -> None:
        """Forget the writers where offsets are missing: their batches may be among those."""
        self._last.clear()

    def finish(self, *, start_offset: int, end_offset: int) -> list[tuple[int, str]]:
        """List what is wrong: an offset, and a sentence."""
        faults = list(self.faults)
        for (writer_id, base_offset), kept in self._wanted.items():
            if start_offset <= base_offset and kept.end_offset <= end_offset:
                faults.append((base_offset, f"The log has no such batch of writer {writer_id}."))
        if self.checkpoint is None:
            return faults
        for writer_id, last in self._known.items():
            remembered = self.checkpoint.writers.get(writer_id, ())
            if remembered and remembered[-1].base_offset < last.base_offset:
                fault = f"The last batch of writer {writer_id} is not remembered"
                faults.append((last.base_offset, f"{fault}, so a resend would be accepted twice."))
        return faults

    def _compare(self, header: BatchHeader, checksum: int | None) -> None:
        checkpoint = self.checkpoint
        if checkpoint is None or header.base_offset >= checkpoint.recovery_offset:
            return
        found = KeptBatch(
            header.sequence,
            header.base_offset,
            header.end_offset,
            header.commit_timestamp,
            checksum,
        )
        self._known[header.writer_id] = found
        wanted = self._wanted.get((header.writer_id, header.base_offset))
        if wanted is not None and _is_same(wanted, found):
            del self._wanted[header.writer_id, header.base_offset]


def _is_same(wanted: KeptBatch, found: KeptBatch) -> bool:
    """Compare a remembered batch with an existing one; either may lack what was sent."""
    if wanted.checksum is None or found.checksum is None:
        return replace(wanted, checksum=None) == replace(found, checksum=None)
    return wanted == found
