"""The search for an order of operations on one register that explains what was seen."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headwater.testing.key_history import KeyOperation, Verb

State = str | None
# A world is what could be the case: which operations under way have taken effect, what the
# register holds, and the last moment at which a write was placed.
World = tuple[frozenset[int], State, int]
_NEVER = -2  # before all that is placed
# Some seconds of search: about fifteen clients that put and get one key at the same moment.
WORLDS_MAX = 50_000


class TooManyWorldsError(Exception):
    """Tell that so much happened at once that a search of its orders takes too long."""

    def __init__(self, operation: KeyOperation) -> None:
        super().__init__(f"More than {WORLDS_MAX} states could be where {operation.number} ends.")
        self.operation = operation


def first_failure(operations: Sequence[KeyOperation]) -> KeyOperation | None:
    """Return the first get that no order explains, or None if some order explains all.

    The search walks over begins and ends in time and keeps every world that could be. Few are
    kept, as nothing is placed before it must be:

    - a get is placed as soon as the register holds what it saw: that changes nothing;
    - a write is placed right before a get under way that saw it, or when it ends;
    - a write that ends may also have been overwritten unseen, by one that was placed meanwhile.
    """
    search = _Search()
    for place, operation in _events(operations):
        search.step(operation, place)
        if not search.worlds:
            return operation
    return None


def possible_states(operations: Sequence[KeyOperation], get: KeyOperation) -> set[State]:
    """Return what the register could hold while a get was under way that nothing explains."""
    search = _Search()
    states = set[State]()
    rest = [each for each in operations if each is not get]
    for place, operation in _events(rest):
        if get.end is not None and place > get.end:
            break
        if place > get.begin:
            states |= {state for _, state in search.worlds}
        search.step(operation, place)
    under_way = {write.value for writes in search.writes.values() for write in writes}
    return states | under_way | {state for _, state in search.worlds}


def _events(operations: Iterable[KeyOperation]) -> list[tuple[int, KeyOperation]]:
    """Return the begins and the ends in time."""
    begins = [(each.begin, each) for each in operations]
    ends = [(each.end, each) for each in operations if each.end is not None]
    return sorted([*begins, *ends], key=lambda event: event[0])


@dataclass(slots=True)
class _Search:
    """Keep the worlds that could be at one moment.

    Of worlds that differ only in the moment of the last write, the one with the latest is kept:
    it can have overwritten all that the others can.
    """

    worlds: dict[tuple[frozenset[int], State], int] = field(
        default_factory=lambda: {(frozenset(), None): -1}
    )
    gets: dict[int, KeyOperation] = field(default_factory=dict)
    writes: dict[State, list[KeyOperation]] = field(default_factory=lambda: defaultdict(list))

    def step(self, operation: KeyOperation, place: int) -> None:
        """Take an operation up where it begins, and keep the worlds that had it when it ends."""
        is_get = operation.verb is Verb.GET
        if place == operation.begin and is_get:
            self.gets[operation.number] = operation
            self._keep(self._with_gets(world) for world in self._all())
        elif place == operation.begin:
            self.writes[operation.value].append(operation)
        elif is_get:
            self._keep(self._after_get(operation, place))
            del self.gets[operation.number]
        else:
            self._keep(self._after_write(operation, place))
            self.writes[operation.value].remove(operation)

    def _all(self) -> list[World]:
        return [(placed, state, at) for (placed, state), at in self.worlds.items()]

    def _keep(self, worlds: Iterable[World]) -> None:
        kept = dict[tuple[frozenset[int], State], int]()
        for placed, state, at in worlds:
            kept[placed, state] = max(at, kept.get((placed, state), -1))
        self.worlds = kept

    def _after_get(self, get: KeyOperation, place: int) -> Iterator[World]:
        for placed, state, at in self._reached(get, place):
            if get.number in placed:
                yield placed - {get.number}, state, at

    def _after_write(self, write: KeyOperation, place: int) -> Iterator[World]:
        for placed, state, at in self._reached(write, place):
            if write.number in placed:
                yield placed - {write.number}, state, at
                continue
            yield self._with_gets((placed, write.value, place))
            if at > write.begin:
                yield placed, state, at

    def _reached(self, ending: KeyOperation, place: int) -> Iterator[World]:
        """Yield the worlds that lead to the end of an operation, each with its latest moment."""
        known = dict[tuple[frozenset[int], State], int]()
        open_worlds = self._all()
        while open_worlds:
            world = open_worlds.pop()
            # One that is known with an earlier moment could have overwritten less: once more.
            if known.get(world[:2], _NEVER) >= world[2]:
                continue
            known[world[:2]] = world[2]
            if len(known) > WORLDS_MAX:
                raise TooManyWorldsError(ending)
            yield world
            if ending.number not in world[0]:
                open_worlds.extend(self._seen_next(world, place))

    def _seen_next(self, world: World, place: int) -> Iterator[World]:
        """Yield the worlds after one more write that a get under way saw."""
        placed, _, _ = world
        wanted = {get.value for number, get in self.gets.items() if number not in placed}
        for value in wanted:
            is_endless_taken = False
            for write in self.writes[value]:
                # Those without an end that write the same can stand for each other.
                is_spare = write.end is None and is_endless_taken
                if write.number in placed or is_spare:
                    continue
                is_endless_taken |= write.end is None
                yield self._with_gets((placed | {write.number}, value, place))

    def _with_gets(self, world: World) -> World:
        placed, state, at = world
        seen = [number for number, get in self.gets.items() if get.value == state]
        return placed.union(seen), state, at
