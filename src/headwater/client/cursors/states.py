"""What is told of cursors to those who look after them."""

from dataclasses import dataclass
from datetime import datetime

from headwater.client.reading.log_batch import Offsets, Place
from headwater.model.path import TablePath


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceState:
    """Tell of one bucket who reads it, and how far that is behind."""

    place: Place
    owner: str | None
    position: int
    """The offset that is read next, by whoever reads on."""
    end: int
    lag_rows: int
    lag_s: float
    """The age of the first row that was not read; 0 where there is none."""
    committed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """Tell of one member where it runs, when it was last heard of, and what it reads."""

    name: str
    note: str
    seen_at: datetime
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """Tell everything of one cursor."""

    name: str
    table: TablePath
    places: tuple[PlaceState, ...]
    members: tuple[MemberState, ...]

    @property
    def positions(self) -> Offsets:
        """Return the offset that is read next in each bucket, from where a tail can follow."""
        return {state.place: state.position for state in self.places}

    @property
    def lag_rows(self) -> int:
        """Return how many rows were not read."""
        return sum(place.lag_rows for place in self.places)

    @property
    def lag_s(self) -> float:
        """Return the age of the oldest row that was not read."""
        return max((place.lag_s for place in self.places), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorSummary:
    """Tell the most important of one cursor."""

    name: str
    table: TablePath
    members: int
    lag_rows: int | None
    """How many rows were not read; None if the table is gone."""
