"""Registers that all clients share at once, and clients that note what they see."""

from dataclasses import dataclass

from hypothesis import strategies as st

from headwater.testing.history import OperationOutcome
from headwater.testing.key_history import KeyHistory, KeyOperation, Verb

CLIENTS = 5
VERBS = ("put", "get", "delete", "get", "put")

# Each step names a client, what it does, and the key; what cannot be done then is left out.
steps = st.tuples(st.integers(0, CLIENTS - 1), st.integers(0, 6), st.integers(0, 1))
tapes = st.lists(steps, max_size=100)


@dataclass
class Call:
    operation: int
    verb: str
    key: str
    value: str | None
    has_happened: bool = False


class KeyWorld:
    """Play a tape; what a client gave up on may still happen much later, or never."""

    def __init__(self) -> None:
        self.history = KeyHistory()
        self.rows: dict[str, str | None] = {}
        self.under_way: dict[int, Call] = {}
        self.given_up: list[Call] = []
        self.count = 0

    def play(self, tape: list[tuple[int, int, int]]) -> KeyHistory:
        for client, choice, key in tape:
            if client not in self.under_way:
                self._begin(client, VERBS[choice % len(VERBS)], f"k{key}")
            else:
                self._go_on(client, choice)
        return self.history

    def _begin(self, client: int, verb: str, key: str) -> None:
        self.count += 1
        value = f"c{client}/{self.count}" if verb == "put" else None
        given = (key, value) if value is not None else (key,)
        operation = getattr(self.history, verb)(f"c{client}", *given)
        self.under_way[client] = Call(operation, verb, key, value)

    def _go_on(self, client: int, choice: int) -> None:
        call = self.under_way[client]
        if choice == 6 and self.given_up:
            self._happen(self.given_up.pop())
        elif choice == 5 and not call.has_happened:
            self.history.fail(self.under_way.pop(client).operation)
        elif choice == 4:
            self._give_up(self.under_way.pop(client))
        elif not call.has_happened:
            self._happen(call)
        else:
            self._answer(self.under_way.pop(client))

    def _happen(self, call: Call) -> None:
        call.has_happened = True
        if call.verb == "get":
            call.value = self.rows.get(call.key)
        else:
            self.rows[call.key] = call.value

    def _give_up(self, call: Call) -> None:
        self.history.lose(call.operation)
        if not call.has_happened:
            self.given_up.append(call)

    def _answer(self, call: Call) -> None:
        self.history.done(call.operation, call.value)


def some_order_explains(operations: list[KeyOperation], held: str | None = None) -> bool:
    """Try every order: slow, and too plain to be wrong."""
    ends = [each.end for each in operations if each.end is not None]
    if not ends:
        return True
    can_be_next = [each for each in operations if each.begin < min(ends)]
    return any(
        some_order_explains(
            [other for other in operations if other is not each],
            held if each.verb is Verb.GET else each.value,
        )
        for each in can_be_next
        if each.verb is not Verb.GET or each.value == held
    )


@st.composite
def small_histories(draw: st.DrawFn) -> list[KeyOperation]:
    """Return a few operations on one key, whose gets saw anything that was put."""
    count = draw(st.integers(1, 7))
    places = draw(st.permutations(range(2 * count)))
    spans = sorted(tuple(sorted(places[2 * n : 2 * n + 2])) for n in range(count))
    verbs = [draw(st.sampled_from((Verb.PUT, Verb.GET, Verb.GET, Verb.DELETE))) for _ in spans]
    values = [None, *(f"v{n}" for n, verb in enumerate(verbs) if verb is Verb.PUT)]
    operations = []
    for number, ((begin, end), verb) in enumerate(zip(spans, verbs, strict=True)):
        value = {Verb.PUT: f"v{number}", Verb.DELETE: None}.get(verb)
        is_unknown = verb is not Verb.GET and draw(st.integers(0, 3)) == 0
        operation = KeyOperation(
            number=number,
            client="c",
            verb=verb,
            key="k",
            value=draw(st.sampled_from(values)) if verb is Verb.GET else value,
            begin=begin,
            end=None if is_unknown else end,
            outcome=OperationOutcome.UNKNOWN if is_unknown else OperationOutcome.DONE,
        )
        operations.append(operation)
    return operations
