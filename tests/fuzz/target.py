"""What is fuzzed: a decoder, valid inputs of it, and the errors that it may answer with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headwater.errors import HeadwaterError
from tests.fuzz.edits import Edit, edited

# Arrow's pool may hold this much at once for one input, where the target knows no limit of its own.
ARROW_BYTES_MAX = 256 * 1024 * 1024


def nothing() -> Sequence[bytes]:
    return ()


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
    refused: Callable[[], Sequence[bytes]] = nothing
    """Gives whole inputs that are beyond a limit."""
    arrow_bytes_max: int = ARROW_BYTES_MAX

    def changed(self, data: bytes, edits: Sequence[Edit]) -> bytes:
        """Return an input that is nearly valid."""
        return self.mend(self.change(data, edits))

    def takes(self, data: bytes) -> bool:
        """Try an input, and return whether it was taken; anything but a refusal is a failure."""
        pool = pa.default_memory_pool()
        held, peak = pool.bytes_allocated(), pool.max_memory()
        try:
            self.run(data)
        except self.refusals:
            return False
        finally:
            # The pool knows the peak of its life only. One that this input has raised is its own;
            # and as none may raise it beyond the bound, none can hide below it in a fresh process.
            if pool.max_memory() > peak:
                self._check_held(pool.max_memory() - held, data)
        return True

    def _check_held(self, held: int, data: bytes) -> None:
        told = f"Arrow held {held} bytes for {len(data)}, at most {self.arrow_bytes_max} may be"
        assert held <= self.arrow_bytes_max, told

    def try_out(self, data: bytes) -> None:
        """Try an input whose fate is of no interest, as long as it is one of the two."""
        self.takes(data)
