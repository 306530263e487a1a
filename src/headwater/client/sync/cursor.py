"""Cursors for callers that do not await."""

from builtins import list as List  # noqa: N812 - a method is called list below
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from headwater.client.cursors.admin import CursorAdmin
from headwater.client.cursors.cursor import AsyncCursor
from headwater.client.cursors.states import CursorState, CursorSummary
from headwater.client.reading.log_batch import LogBatch, Offsets, Place
from headwater.client.reading.starts import Start
from headwater.model.path import TablePath
from headwater.runtime.loops import LoopThread


class Cursor:
    """Follow a table together with all who use the same name, each a share of the buckets.

    Entering the `with` block joins the others, leaving it hands the buckets over to them. Rows
    are delivered at least once: what was read after the last commit is read again by whoever
    takes over.
    """

    def __init__(self, loop: LoopThread, cursor: AsyncCursor) -> None:
        self._loop = loop
        self._cursor = cursor

    def __repr__(self) -> str:
        return self._cursor.shown(self)

    @property
    def assigned(self) -> tuple[Place, ...]:
        """Return the buckets that are read here at present."""
        return self._cursor.assigned

    @property
    def positions(self) -> Offsets:
        """Return the offset up to which each bucket was given to the caller."""
        return self._cursor.positions

    def poll(self, timeout_s: float = 1.0) -> List[LogBatch]:
        """Return the batches that are there, waiting no longer than the timeout for the first."""
        return self._loop.run(self._cursor.poll(timeout_s))

    def commit(self, positions: Offsets | None = None) -> None:
        """Commit everything that was given so far, or positions within that."""
        self._loop.run(self._cursor.commit(positions))

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield batch after batch, for ever."""
        while True:
            yield self._loop.run(self._cursor.__anext__())

    def join(self) -> Self:
        """Become a member and take on a share of the buckets, as entering a `with` block does."""
        self._loop.run(self._cursor.join())
        return self

    def leave(self, *, is_done: bool = True) -> None:
        """Give all buckets to the others; `is_done` tells that what was given last is done with."""
        if self._loop.is_open:
            self._loop.run(self._cursor.leave(is_done=is_done))

    def __enter__(self) -> Self:
        return self.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop.is_open:
            self._loop.run(self._cursor.__aexit__(kind, fault, trace))


class Cursors:
    """Look after the cursors of a storage: list, describe, reset and delete them."""

    def __init__(self, loop: LoopThread, admin: CursorAdmin) -> None:
        self._loop = loop
        self._admin = admin

    def list(self) -> List[CursorSummary]:
        """Return all cursors, sorted by name and table."""
        return self._loop.run(self._admin.list())

    def describe(self, name: str, table: str | TablePath) -> CursorState:
        """Return who reads what of a table, and how far behind."""
        return self._loop.run(self._admin.describe(name, table))

    def reset(self, name: str, table: str | TablePath, *, to: Start, force: bool = False) -> None:
        """Set a cursor to the earliest or latest rows, offsets, or a moment.

        While members are at work that is refused, unless forced.
        """
        self._loop.run(self._admin.reset(name, table, to=to, force=force))

    def delete(self, name: str, table: str | TablePath, *, force: bool = False) -> None:
        """Delete a cursor with all its positions."""
        self._loop.run(self._admin.delete(name, table, force=force))
