"""Blocking tails and cursors."""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from headwater.client.cursors.admin import CursorAdmin, CursorState, CursorSummary
from headwater.client.cursors.cursor import AsyncCursor
from headwater.model import TablePath
from headwater.read.offsets import LogBatch, Offsets, Place, Start
from headwater.rows.columns import few, shown
from headwater.runtime.loops import LoopThread

# Tails.


class Following(Protocol):
    """An async tail or cursor."""

    @property
    def name(self) -> str:
        """Name of the table."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the batches."""
        ...

    @property
    def position(self) -> Offsets:
        """The offset that is read next in each bucket."""
        ...

    async def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return available batches, waiting at most the timeout for the first."""
        ...

    async def close(self) -> None:
        """Stop following."""
        ...


class Tail:
    """Follows a table: batch after batch, as they are written.

    Iterating never ends; `poll` returns what arrived within a time. Use it with `with`, or
    `close()` it.
    """

    def __init__(self, loop: LoopThread, tail: Following) -> None:
        self._loop = loop
        self._tail = tail

    def __repr__(self) -> str:
        return shown(self, self._tail.name, columns=few(self._tail.columns))

    def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return available batches, waiting at most the timeout for the first."""
        return self._loop.run(self._tail.poll(timeout_s))

    @property
    def position(self) -> Offsets:
        """The offset that is read next in each bucket."""
        return self._tail.position

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield batches for ever."""
        while True:
            yield from self.poll()

    def close(self) -> None:
        """Stop following."""
        # by hand: does nothing once the client is closed
        if self._loop.is_open:
            self._loop.run(self._tail.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# Cursors.


class Cursor:
    """Follows a table together with all users of the same name, each with a share of the buckets.

    Entering the `with` block joins the others, leaving it hands the buckets over to them. Rows
    are delivered at least once: what was read after the last commit is read again by the next
    owner.
    """

    def __init__(self, loop: LoopThread, cursor: AsyncCursor) -> None:
        self._loop = loop
        self._cursor = cursor

    def __repr__(self) -> str:
        return self._cursor.shown(self)

    @property
    def assigned(self) -> tuple[Place, ...]:
        """The buckets that this member reads at the moment."""
        return self._cursor.assigned

    @property
    def positions(self) -> Offsets:
        """The offset up to which the caller was given each bucket."""
        return self._cursor.positions

    def poll(self, timeout_s: float = 1.0) -> list[LogBatch]:
        """Return the available batches, waiting at most `timeout_s` for the first.

        With auto-commit, the next call commits the batches of this one.
        """
        return self._loop.run(self._cursor.poll(timeout_s))

    def commit(self, positions: Offsets | None = None) -> None:
        """Commit everything delivered so far, or positions within that.

        If other members own some of the buckets by now, they read them again from their last
        commit on: the other buckets are committed, and `CursorLostError` is raised.
        """
        self._loop.run(self._cursor.commit(positions))

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield batch after batch, for ever."""
        while True:
            yield self._loop.run(self._cursor.__anext__())

    def join(self) -> Self:
        """Join the group and take a share of the buckets."""
        # by hand: returns this cursor, not the one that awaits
        self._loop.run(self._cursor.join())
        return self

    def leave(self, *, is_done: bool = True) -> None:
        """Give all buckets to the others; `is_done` says that the last rows are processed."""
        # by hand: does nothing once the client is closed
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
    """Manages the cursors of a storage: list, describe, reset and delete them."""

    def __init__(self, loop: LoopThread, admin: CursorAdmin) -> None:
        self._loop = loop
        self._admin = admin

    def list(self) -> list[CursorSummary]:
        """List all cursors, sorted by name and table."""
        return self._loop.run(self._admin.list())

    def describe(self, name: str, table: str | TablePath) -> CursorState:
        """Describe who reads what of a table, and how far behind."""
        return self._loop.run(self._admin.describe(name, table))

    def reset(self, name: str, table: str | TablePath, *, to: Start, force: bool = False) -> None:
        """Move a cursor to other positions, creating it if necessary.

        Offsets are set for the buckets that are named, anything else for all. While members are
        reading that is an error, unless forced; then they lose their buckets and continue from the
        new positions.
        """
        self._loop.run(self._admin.reset(name, table, to=to, force=force))

    def delete(self, name: str, table: str | TablePath, *, force: bool = False) -> None:
        """Delete a cursor with all its positions; while members are reading only if forced."""
        self._loop.run(self._admin.delete(name, table, force=force))
