"""Headwater in Polars: `headwater.polars.scan(table)` is a lazy frame of lake and log as one.

It needs the extra `headwater[polars]`.
"""

from collections.abc import Mapping
from datetime import datetime

from headwater.engines.storages import Source, ViewPosition, ViewRequest, told, view_of
from headwater.errors import HeadwaterError
from headwater.read.offsets import Place

try:
    import polars as pl

    from headwater.engines.polars import lazy_frame
except ModuleNotFoundError as fault:
    if fault.name != "polars":
        raise
    raise ModuleNotFoundError(
        "The package 'polars' is not installed. Run: pip install 'headwater[polars]'",
        name=fault.name,
    ) from fault

__all__ = ["scan"]


def scan(  # noqa: PLR0913 - one argument per choice
    source: Source,
    table: str | None = None,
    *,
    token: str | None = None,
    snapshot_id: int | None = None,
    as_of: datetime | int | None = None,
    offsets: Mapping[Place | int, int] | None = None,
    mode: str = "union",
    lake: Mapping[str, str] | None = None,
) -> pl.LazyFrame:
    """Return the rows of a table as a lazy frame of Polars.

    `source` is a table, a view, or a storage (a client, `host:port`, or a data directory) with
    the name of a table in it. The position is taken here: the frame gives the same rows whenever
    it is collected, and `scan` called again gives those that came since. Files of the lake are
    read by Polars itself; of the log, the columns that a query needs are read when it is
    collected. Filters, columns and limits reach both.

    >>> import headwater.polars
    >>> headwater.polars.scan(orders).select("id").max().collect().item()
    101
    """
    position = ViewPosition(
        token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
    )
    try:
        return lazy_frame(view_of(source, ViewRequest(table=table, position=position, lake=lake)))
    except HeadwaterError as fault:
        raise pl.exceptions.ComputeError(told(fault)) from fault
