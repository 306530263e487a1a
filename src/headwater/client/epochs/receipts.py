"""What the writing of an epoch returns."""

from dataclasses import dataclass

from headwater.client.reading.log_batch import Offsets


@dataclass(frozen=True, slots=True)
class EpochReceipt:
    """Tell that all rows of an epoch are written, and what of them was there already."""

    rows: int
    """Rows of the epoch, whoever wrote them."""
    batches_written: int
    """Batches that this attempt wrote."""
    batches_landed: int
    """Batches that an earlier attempt, or one at the same time, had written."""
    offsets: Offsets
    """Where the log of each bucket stands after its last batch; none for an epoch that was
    finished before."""
