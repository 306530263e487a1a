"""What tells the rows of one attempt to write: sink, epoch, lane, and how they are meant."""

from dataclasses import dataclass

from headwater.client.reading.log_batch import Offsets
from headwater.errors import InvalidValueError

SINK_CHARACTERS_MAX = 256
EPOCH_MAX = 2**63 - 1
LANE_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Name the rows that are to be written once, whoever sends them."""

    sink: str
    number: int
    lane: int = 0
    begins: Offsets | None = None
    """Where logs ended before anybody wrote, for those who keep no ledger."""

    def __post_init__(self) -> None:
        if not 0 < len(self.sink) <= SINK_CHARACTERS_MAX:
            raise InvalidValueError(
                f"A sink has a name of 1 to {SINK_CHARACTERS_MAX} characters, not of"
                f" {len(self.sink)}."
            )
        if not 0 <= self.number <= EPOCH_MAX:
            raise InvalidValueError(f"Epochs are numbered from 0 on, {self.number} is none.")
        if not 0 <= self.lane <= LANE_MAX:
            raise InvalidValueError(f"Lanes are numbered from 0 on, {self.lane} is none.")
        if self.begins is not None and self.number:
            raise InvalidValueError(
                f"Epoch {self.number} needs the ledger, as only a first epoch knows its begin.",
                hint="Leave out `begins`.",
            )
