"""Headwater in Spark: source, sink, catalog and joins, in pure Python.

Importing any part of it in a helper process of Spark makes that process end quietly when Spark is
gone before it has answered. Ctrl-C, the end of a program, and queries that have enough rows do
that, and every helper would print a traceback on the user's terminal. Our own daemon handles it
itself; Spark plans with daemons of its own, in which nothing of ours but readers and writers may be
loaded.
"""

import sys
import traceback
from types import TracebackType
from typing import Protocol


class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...


def _hush_broken_pipes() -> None:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or not spec.name.startswith("pyspark."):
        return
    if sys.excepthook is not _told_unless_hung_up:
        sys.excepthook = _told_unless_hung_up
        traceback.print_exc = _printed_unless_hung_up


def _told_unless_hung_up(
    kind: type[BaseException], fault: BaseException, trace: TracebackType | None
) -> None:
    if not isinstance(fault, BrokenPipeError):
        sys.__excepthook__(kind, fault, trace)


def _printed_unless_hung_up(
    limit: int | None = None,
    file: _Writable | None = None,
    chain: bool = True,  # noqa: FBT001, FBT002 - as Python has it
) -> None:
    fault = sys.exception()
    if not isinstance(fault, BrokenPipeError):
        traceback.print_exception(fault, limit=limit, file=file, chain=chain)


_hush_broken_pipes()
