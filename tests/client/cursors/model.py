"""A model of the cursor table in memory, and a way to run members in every order."""

from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import coroutine

from headwater.client.cursors.rows import CursorRow, cursors_descriptor
from headwater.model.aggregate import AggregateKind

AGGREGATES = {
    column.name: column.aggregate.kind
    for column in cursors_descriptor().schema.columns
    if column.aggregate is not None
}
FOLDS: dict[AggregateKind, Callable] = {
    AggregateKind.FIRST_VALUE_IGNORE_NULLS: lambda held, new: new if held is None else held,
    AggregateKind.LAST_VALUE_IGNORE_NULLS: lambda held, new: held if new is None else new,
    AggregateKind.MAX: lambda held, new: max(
        (v for v in (held, new) if v is not None), default=None
    ),
    AggregateKind.BOOL_OR: lambda held, new: (held or new) if held is not None else new,
}


@dataclass
class ModelTable:
    """Fold rows as the aggregation merge engine of a server does."""

    other: dict[str, AggregateKind] = field(default_factory=dict)
    held: dict[tuple[str, int], CursorRow] = field(default_factory=dict)
    late: list[partial[None]] = field(default_factory=list)

    def upsert(self, rows: Sequence[CursorRow]) -> None:
        for row in rows:
            before = self.held.get(row.key)
            self.held[row.key] = (
                row if before is None else folded(before, row, AGGREGATES | self.other)
            )

    def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        for key in keys:
            self.held.pop(key, None)

    def land(self, index: int) -> None:
        """Let a write happen whose writer no longer waits for it."""
        self.late.pop(index)()


class LostAnswerError(Exception):
    """Tell a writer nothing: its write may happen now, later or never."""


def folded(held: CursorRow, new: CursorRow, kinds: dict[str, AggregateKind]) -> CursorRow:
    changes = {
        name: FOLDS[kind](getattr(held, name), getattr(new, name)) for name, kind in kinds.items()
    }
    return replace(held, **changes)


@coroutine
def turn() -> Generator[None, None, None]:
    """Let whoever drives the members choose who goes on."""
    yield


class TurnStore:
    """Reach the table in steps: each operation waits for its turn and then happens at once."""

    def __init__(self, table: ModelTable) -> None:
        self.table = table
        self.seen = 0
        self.is_late = False

    async def upsert(self, rows: Sequence[CursorRow], *, only_if: object = ()) -> None:
        await turn()
        self._write(partial(self.table.upsert, tuple(rows)))

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        await turn()
        self._write(partial(self.table.delete, tuple(keys)))

    def _write(self, write: partial[None]) -> None:
        if self.is_late:
            self.table.late.append(write)
            raise LostAnswerError
        write()

    async def rows(self) -> list[CursorRow]:
        await turn()
        found = list(self.table.held.values())
        self.seen = hash((self.seen, frozenset(found)))
        return found

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        """Read row by row, in between which others may write: more than is promised."""
        found = []
        for key in keys:
            await turn()
            found += [self.table.held[key]] if key in self.table.held else []
            self.seen = hash((self.seen, frozenset(found)))
        return found


class PlainStore:
    """Reach the table without waiting."""

    def __init__(self, table: ModelTable) -> None:
        self.table = table

    async def upsert(self, rows: Sequence[CursorRow], *, only_if: object = ()) -> None:
        self.table.upsert(rows)

    async def delete(self, keys: Sequence[tuple[str, int]]) -> None:
        self.table.delete(keys)

    async def rows(self) -> list[CursorRow]:
        return list(self.table.held.values())

    async def find(self, keys: Sequence[tuple[str, int]]) -> list[CursorRow]:
        return [self.table.held[key] for key in keys if key in self.table.held]


@dataclass
class Actor:
    """One member at work: a coroutine that is moved step by step, and what it has seen."""

    work: Coroutine[None, None, None]
    store: TurnStore
    steps: int = 0
    is_done: bool = False

    def __post_init__(self) -> None:
        # Up to the first operation, which then waits for its turn.
        self.work.send(None)

    def step(self, *, is_late: bool = False) -> None:
        self.store.is_late = is_late
        try:
            self.work.send(None)
            self.steps += 1
        except StopIteration:
            self.is_done = True

    def crash(self) -> None:
        self.work.close()
        self.is_done = True
