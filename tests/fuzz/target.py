"""What is fuzzed: a decoder, valid inputs of it, and the errors that it may answer with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import HeadwaterError
from tests.fuzz.edits import Edit, edited

# Arrow's pool may have held this much at once while one input after the other was tried.
ARROW_BYTES_MAX = 256 * 1024 * 1024


def unchanged(data: bytes) -> bytes:
    return data


@dataclass(frozen=True, slots=True)
class Target:
    """Name one decoder; `run` raises nothing but `refusals`, and checks what it promises."""

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    refusals: tuple[type[HeadwaterError], ...] = ()
    change: Callable[[bytes, Sequence[Edit]], bytes] = edited
    mend: Callable[[bytes], bytes] = unchanged
    """Makes checksums fit again, so that what lies behind them is reached."""

    def changed(self, data: bytes, edits: Sequence[Edit]) -> bytes:
        """Return an input that is nearly valid."""
        return self.mend(self.change(data, edits))

    def takes(self, data: bytes) -> bool:
        """Try an input, and return whether it was taken; anything but a refusal is a failure."""
        # Others may have held more in this process before.
        before = pa.default_memory_pool().max_memory()
        try:
            self.run(data)
        except self.refusals:
            return False
        held = pa.default_memory_pool().max_memory()
        assert held <= max(before, ARROW_BYTES_MAX), f"Arrow held {held} bytes for {len(data)}"
        return True

    def try_out(self, data: bytes) -> None:
        """Try an input whose fate is of no interest, as long as it is one of the two."""
        self.takes(data)
