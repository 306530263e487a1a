"""Which segments make up a log right now, as one value that is replaced as a whole."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.log.segment import Damage, Segment


@dataclass(frozen=True, slots=True)
class Shape:
    """Hold the segments, oldest first and the active one last, and what is damaged."""

    start_offset: int
    segments: tuple[Segment, ...]
    damages: tuple[Damage, ...]

    @property
    def active(self) -> Segment:
        """Return the segment that takes appends."""
        return self.segments[-1]

    def holding(self, offset: int) -> Segment | None:
        """Return the segment in which an offset can be read, or None where it is damaged."""
        segment = self.at_or_before(offset)
        is_inside = segment is not None and segment.base_offset <= offset < segment.end_offset
        return segment if is_inside else None

    def at_or_before(self, offset: int) -> Segment | None:
        """Return the last segment that starts at or before an offset."""
        index = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset)
        return self.segments[index - 1] if index else None

    def damage_at(self, offset: int) -> Damage | None:
        """Return the damage that an offset lies in."""
        inside = (damage for damage in self.damages if damage.start <= offset < damage.end)
        return next(inside, None)

    def followed_by(self, segment: Segment) -> "Shape":
        """Return the shape with a new active segment."""
        return replace(self, segments=(*self.segments, segment))

    def without(self, removed: Sequence[Segment], *, start_offset: int) -> "Shape":
        """Return the shape after retention."""
        return Shape(
            start_offset,
            tuple(segment for segment in self.segments if segment not in removed),
            tuple(damage for damage in self.damages if damage.end > start_offset),
        )

    def with_damage(self, old: Segment, *, new: Segment, damage: Damage) -> "Shape":
        """Return the shape after a segment was set aside."""
        segments = tuple(new if segment is old else segment for segment in self.segments)
        damages = [each for each in self.damages if each.end != damage.end]
        return Shape(self.start_offset, segments, (*damages, damage))

    def with_other(self, old: Segment, new: Segment) -> "Shape":
        """Return the shape after a segment was rewritten."""
        segments = tuple(new if segment is old else segment for segment in self.segments)
        return replace(self, segments=segments)

    def end_of(self, segment: Segment) -> int:
        """Return where the segment after this one starts."""
        return self.segments[self.segments.index(segment) + 1].base_offset
