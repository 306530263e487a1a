"""Tables of a storage as tables of DataFusion, each time as they are then."""

from collections.abc import Callable
from typing import TypeVar

from datafusion import SessionContext
from datafusion.catalog import Table

from headwater.engines.datafusion.scan import data_frame
from headwater.engines.viewing import Asked, Source, told, view_of
from headwater.errors import HeadwaterError
from headwater.runtime.elsewhere import elsewhere

T = TypeVar("T")


def table_of(source: Source, asked: Asked) -> Table:
    """Return the rows of a table, at the position that was asked for.

    DataFusion calls this while it plans a query, when it can be asked nothing in its thread. The
    session only makes plans; the one that asks runs them.
    """
    session = SessionContext()
    return in_words(
        lambda: elsewhere(lambda: data_frame(session, view_of(source, asked)).into_view())
    )


def in_words(work: Callable[[], T]) -> T:
    """Have a fault of the storage told as DataFusion tells its own."""
    try:
        return work()
    except HeadwaterError as fault:
        raise ValueError(told(fault)) from fault
