"""The checker of key histories: each key is one register that all clients share."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from headwater.testing.key_history import KeyHistory, KeyOperation, Verb
from headwater.testing.linearizing import TooManyWorldsError, first_failure, possible_states
from headwater.testing.operations import Outcome
from headwater.testing.violation import Violation, ViolationKind

__all__ = ["KeyHistory", "Violation", "ViolationKind", "check_keys"]

_SHOWN_MAX = 12
_DONE = {Verb.PUT: "put {}", Verb.DELETE: "deleted", Verb.GET: "saw {}"}


def check_keys(history: KeyHistory) -> list[Violation]:
    """Return what no order of the operations explains, one key at a time.

    An operation takes effect at one moment between its begin and its end. One whose outcome is
    unknown takes effect at any moment after its begin, or never; one that failed never does.
    There is no row under a key in the beginning. Keys are judged for themselves: operations on
    one register each are linearizable together if and only if those of each register are.

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
    """Return whether an operation says anything: a get without an answer does not."""
    if operation.verb is Verb.GET:
        return operation.outcome is Outcome.DONE
    return operation.outcome is not Outcome.FAILED


def _phantoms(operations: Sequence[KeyOperation]) -> Iterator[tuple[KeyOperation, str]]:
    """Yield the gets that saw what nobody wrote, with what is known of the value."""
    puts = [each for each in operations if each.verb is Verb.PUT]
    written = {each.value for each in puts if each.outcome is not Outcome.FAILED}
    failed = {each.value: each for each in puts if each.outcome is Outcome.FAILED}
    for get in operations:
        is_answer = get.verb is Verb.GET and get.outcome is Outcome.DONE
        if not is_answer or get.value is None or get.value in written:
            continue
        put = failed.get(get.value)
        yield get, "which nobody put" if put is None else f"whose put (#{put.number}) failed"


def _smallest(
    operations: Sequence[KeyOperation], failing: KeyOperation
) -> tuple[list[KeyOperation], KeyOperation]:
    """Leave out what the contradiction does not need, in ever smaller pieces.

    Without a get there is one thing less to explain, and without a write that nobody sees one
    thing less in the way: what cannot be explained then could not be before.
    """
    end = failing.end or failing.begin
    kept = [each for each in operations if each.begin <= end]
    size = len(kept)
    while size:
        before = len(kept)
        kept, failing = _thinned(kept, failing, size)
        # A write may go only when the gets that saw it have gone: try single ones once more.
        size = size // 2 if size > 1 or len(kept) == before else 1
    return kept, failing


def _thinned(
    kept: list[KeyOperation], failing: KeyOperation, size: int
) -> tuple[list[KeyOperation], KeyOperation]:
    """Try to do without each piece of a size in turn."""
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
        f"No order explains key {key!r}: {_told(failing)}, when there could only be {held}. "
        f"Given: {'; '.join(told[:_SHOWN_MAX]) or 'nothing before'}{more}."
    )
    return Violation(
        kind=ViolationKind.NOT_LINEARIZABLE,
        message=message,
        key=key,
        operations=tuple(each.number for each in kept),
    )


def _given_up(key: str, operation: KeyOperation) -> Violation:
    message = (
        f"So many operations on key {key!r} are under way where {_told(operation)} ends that "
        "their orders cannot be searched. Spread them over more keys."
    )
    return Violation(
        kind=ViolationKind.NOT_JUDGED, message=message, key=key, operations=(operation.number,)
    )


def _told(operation: KeyOperation) -> str:
    """Return an operation in words, with the places of its begin and end among all events."""
    end = "" if operation.end is None else operation.end
    name = f"#{operation.number} of {operation.client} [{operation.begin}..{end}]"
    done = _DONE[operation.verb].format(_shown(operation.value))
    doubt = " perhaps" if operation.outcome is Outcome.UNKNOWN else ""
    return f"{name}{doubt} {done}"


def _shown(value: str | None) -> str:
    return "no row" if value is None else repr(value)
