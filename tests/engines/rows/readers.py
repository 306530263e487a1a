"""Engines as the suite sees them: each reads all rows of a view."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa
from datafusion import SessionContext

import headwater
import headwater.arrow
import headwater.datafusion
import headwater.polars

Reader = Callable[[headwater.View], pa.Table]


def with_arrow(view: headwater.View) -> pa.Table:
    return headwater.arrow.dataset(view).to_table()


def with_polars(view: headwater.View) -> pa.Table:
    return headwater.polars.scan(view).collect().to_arrow()


def with_datafusion(view: headwater.View) -> pa.Table:
    ctx = SessionContext()
    headwater.datafusion.register(ctx, "t", view)
    return ctx.sql("SELECT * FROM t").to_arrow_table()


READERS: dict[str, Reader] = {
    "arrow": with_arrow,
    "polars": with_polars,
    "datafusion": with_datafusion,
}


def counted(rows: Iterable[Mapping[str, object]]) -> Counter[str]:
    """Return how often each row is there, whatever an engine makes of rows and maps."""
    return Counter(repr(plain(row)) for row in rows)


def plain(value: object) -> object:
    match value:
        case dict():
            return tuple(plain(each) for each in value.values())
        case list() | tuple():
            return tuple(plain(each) for each in value)
        case _:
            return value
