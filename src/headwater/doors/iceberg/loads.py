"""Loads of tables: a position taken now, its tail as files, and the metadata that names them."""

from dataclasses import dataclass

from headwater.client.sync.client import Client
from headwater.errors import UnsupportedError
from headwater.model import TablePath
from headwater.runtime.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    """How fresh a load is, and how long its tail may be."""

    fresh_within_s: float = 1.0
    rows_max: int = 20_000_000


@dataclass(frozen=True, slots=True)
class HotTable:
    """A table as it was loaded: the answer, and what tells it from others."""

    etag: str
    body: bytes


class HotTables:
    """Loads tables, and keeps what was loaded last."""

    def __init__(self, limits: TailLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock

    def load(self, client: Client, path: TablePath, *, caller: str) -> HotTable:
        """Load a table as its newest rows are."""
        found = client.table(path)
        raise UnsupportedError(f"{found.path} cannot be loaded yet by {caller}.")

    def close(self) -> None:
        """Remove what nobody can read any more."""
