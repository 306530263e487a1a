"""The checker of key histories: each key is one register that all clients share."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headwater.testing.history import OperationOutcome, Violation, ViolationKind
from headwater.testing.key_history import KeyHistory, KeyOperation, Verb

# The search for an order of operations on one register that explains what was seen.

State = str | None
# A world is one possible state: which running operations have taken effect, the value of the
# register, and the last moment at which a write was placed.
World = tuple[frozenset[int], State, int]
_NEVER = -2  # before everything that is placed
# Some seconds of search: about fifteen clients that put and get one key at the same time.
WORLDS_MAX = 50_000


class TooManyWorldsError(Exception):
    """So many operations overlap that searching their orders takes too long."""

    def __init__(self, operation: KeyOperation) -> None:
        super().__init__(
            f"More than {WORLDS_MAX} states are possible when operation {operation.number} ends."
        )
        self.operation = operation


def first_failure(operations: Sequence[KeyOperation]) -> KeyOperation | None:
    """Return the first get that no order explains, or None if some order explains all.

    The search goes through starts and ends in time and keeps every possible world. There are few,
    since nothing is placed before it must be:

    - a get is placed as soon as the register has the value it saw: that changes nothing;
    - a write is placed right before a running get that saw it, or when it ends;
    - a write that ends may also have been overwritten unseen, by one that was placed meanwhile.
    """
    search = _Search()
    for place, operation in _events(operations):
        search.step(operation, place)
        if not search.worlds:
            return operation
    return None


def possible_states(operations: Sequence[KeyOperation], get: KeyOperation) -> set[State]:
    """Return the possible values of the register during a get that nothing explains."""
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
    begins = [(each.begin, each) for each in operations]
    ends = [(each.end, each) for each in operations if each.end is not None]
    return sorted([*begins, *ends], key=lambda event: event[0])


@dataclass(slots=True)
class _Search:
    """The worlds that are possible at one moment.

    Of worlds that differ only in the moment of the last write, the latest is kept: it can have
    overwritten everything that the others can.
    """

    worlds: dict[tuple[frozenset[int], State], int] = field(
        default_factory=lambda: {(frozenset(), None): -1}
    )
    gets: dict[int, KeyOperation] = field(default_factory=dict)
    writes: dict[State, list[KeyOperation]] = field(default_factory=lambda: defaultdict(list))

    def step(self, operation: KeyOperation, place: int) -> None:
        """Add an operation when it starts; when it ends, keep only the worlds that include it."""
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
            # A world known with an earlier moment could have overwritten less: visit it again.
            if known.get(world[:2], _NEVER) >= world[2]:
                continue
            known[world[:2]] = world[2]
            if len(known) > WORLDS_MAX:
                raise TooManyWorldsError(ending)
            yield world
            if ending.number not in world[0]:
                open_worlds.extend(self._seen_next(world, place))

    def _seen_next(self, world: World, place: int) -> Iterator[World]:
        """Yield the worlds after one more write that a running get saw."""
        placed, _, _ = world
        wanted = {get.value for number, get in self.gets.items() if number not in placed}
        for value in wanted:
            is_endless_taken = False
            for write in self.writes[value]:
                # Writes of the same value without an end are interchangeable.
                is_spare = write.end is None and is_endless_taken
                if write.number in placed or is_spare:
                    continue
                is_endless_taken |= write.end is None
                yield self._with_gets((placed | {write.number}, value, place))

    def _with_gets(self, world: World) -> World:
        placed, state, at = world
        seen = [number for number, get in self.gets.items() if get.value == state]
        return placed.union(seen), state, at


__all__ = ["KeyHistory", "Violation", "ViolationKind", "check_keys"]

_SHOWN_MAX = 12
_DONE = {Verb.PUT: "put {}", Verb.DELETE: "deleted", Verb.GET: "saw {}"}


def check_keys(history: KeyHistory) -> list[Violation]:
    """Find what no order of the operations explains, one key at a time.

    An operation takes effect at one moment between its start and its end. One whose outcome is
    unknown takes effect at any moment after its start, or never; a failed one never does. Initially
    no key has a row. Keys are checked separately: operations on several registers are linearizable
    if and only if those on each register are.

    A violation names the fewest operations that contradict each other.
    """
    by_key = defaultdict[str, list[KeyOperation]](list)
    for operation in history.operations():
        by_key[operation.key].append(operation)
    return [
        violation for key, operations in by_key.items() for violation in _check(key, operations)
    ]


def _check(key: str, operations: Sequence[KeyOperation]) -> Iterator[Violation]:
    phantoms = list(_phantoms(operations))
    for get, why in phantoms:
        text = f"{_told(get)} of key {key!r}, {why}."
        yield Violation(kind=ViolationKind.PHANTOM, message=text, key=key, operations=(get.number,))
    unexplained = {get.number for get, _ in phantoms}
    judged = [each for each in operations if each.number not in unexplained and _counts(each)]
    try:
        failing = first_failure(judged)
    except TooManyWorldsError as stopped:
        yield _given_up(key, stopped.operation)
        return
    if failing is not None:
        yield _explained(key, *_smallest(judged, failing))


def _counts(operation: KeyOperation) -> bool:
    """Tell whether an operation proves anything: a get without an answer does not."""
    if operation.verb is Verb.GET:
        return operation.outcome is OperationOutcome.DONE
    return operation.outcome is not OperationOutcome.FAILED


def _phantoms(operations: Sequence[KeyOperation]) -> Iterator[tuple[KeyOperation, str]]:
    """Yield the gets that saw a value nobody wrote, with what is known of the value."""
    puts = [each for each in operations if each.verb is Verb.PUT]
    written = {each.value for each in puts if each.outcome is not OperationOutcome.FAILED}
    failed = {each.value: each for each in puts if each.outcome is OperationOutcome.FAILED}
    for get in operations:
        is_answer = get.verb is Verb.GET and get.outcome is OperationOutcome.DONE
        if not is_answer or get.value is None or get.value in written:
            continue
        put = failed.get(get.value)
        yield get, "which nobody put" if put is None else f"whose put (#{put.number}) failed"


def _smallest(
    operations: Sequence[KeyOperation], failing: KeyOperation
) -> tuple[list[KeyOperation], KeyOperation]:
    """Remove operations that the contradiction does not need, in ever smaller chunks.

    Without a get there is less to explain, and without an unseen write less in the way: what cannot
    be explained then could not be explained before.
    """
    end = failing.end or failing.begin
    kept = [each for each in operations if each.begin <= end]
    size = len(kept)
    while size:
        before = len(kept)
        kept, failing = _thinned(kept, failing, size)
        # A write can only go after the gets that saw it: try single ones once more.
        size = size // 2 if size > 1 or len(kept) == before else 1
    return kept, failing


def _thinned(
    kept: list[KeyOperation], failing: KeyOperation, size: int
) -> tuple[list[KeyOperation], KeyOperation]:
    """Try to remove each chunk of a size in turn."""
    start = 0
    while start < len(kept):
        fewer = [*kept[:start], *kept[start + size :]]
        found = first_failure(fewer) if _may_go(kept[start : start + size], fewer) else None
        if found is None:
            start += size
        else:
            kept, failing = fewer, found
    return kept, failing


def _may_go(gone: Iterable[KeyOperation], rest: Iterable[KeyOperation]) -> bool:
    seen = {each.value for each in rest if each.verb is Verb.GET}
    return all(each.verb is Verb.GET or each.value not in seen for each in gone)


def _explained(key: str, kept: Sequence[KeyOperation], failing: KeyOperation) -> Violation:
    held = " or ".join(sorted(map(_shown, possible_states(kept, failing))))
    told = [_told(each) for each in kept if each is not failing]
    left = len(told) - _SHOWN_MAX
    more = f"; and {left} more" if left > 0 else ""
    message = (
        f"No order explains key {key!r}: {_told(failing)}, when only {held} was possible. Given: "
        f"{'; '.join(told[:_SHOWN_MAX]) or 'nothing before'}{more}."
    )
    return Violation(
        kind=ViolationKind.NOT_LINEARIZABLE,
        message=message,
        key=key,
        operations=tuple(each.number for each in kept),
    )


def _given_up(key: str, operation: KeyOperation) -> Violation:
    message = (
        f"Too many operations on key {key!r} overlap where {_told(operation)} ends to search "
        "their orders. Spread them over more keys."
    )
    return Violation(
        kind=ViolationKind.NOT_JUDGED, message=message, key=key, operations=(operation.number,)
    )


def _told(operation: KeyOperation) -> str:
    """Describe an operation, with the positions of its start and end among all events."""
    end = "" if operation.end is None else operation.end
    name = f"#{operation.number} of {operation.client} [{operation.begin}..{end}]"
    done = _DONE[operation.verb].format(_shown(operation.value))
    doubt = " perhaps" if operation.outcome is OperationOutcome.UNKNOWN else ""
    return f"{name}{doubt} {done}"


def _shown(value: str | None) -> str:
    return "no row" if value is None else repr(value)
