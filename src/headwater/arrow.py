"""Headwater for readers of pyarrow datasets: `headwater.arrow.dataset(table)`."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow.dataset as ds

from headwater.engines.arrow import union_dataset
from headwater.engines.storages import Source, ViewPosition, ViewRequest, view_of
from headwater.read.offsets import Place

__all__ = ["dataset"]


def dataset(  # noqa: PLR0913 - one argument per choice
    source: Source,
    table: str | None = None,
    *,
    token: str | None = None,
    snapshot_id: int | None = None,
    as_of: datetime | int | None = None,
    offsets: Mapping[Place | int, int] | None = None,
    mode: str = "union",
    lake: Mapping[str, str] | None = None,
) -> ds.Dataset:
    """Return the rows of a table as a pyarrow dataset.

    `source` is a table, a view, or a storage (a client, `host:port`, or a data directory) with
    the name of a table in it. The position is taken here: the dataset gives the same rows
    whenever it is read. Only columns that are asked for are read; a filter is applied exactly,
    and files, buckets and partitions that cannot hold a value it names are not read at all.

    >>> import headwater.arrow
    >>> headwater.arrow.dataset(orders).to_table(columns=["id"]).num_rows
    102
    """
    position = ViewPosition(
        token=token, snapshot_id=snapshot_id, as_of=as_of, offsets=offsets, mode=mode
    )
    return union_dataset(view_of(source, ViewRequest(table=table, position=position, lake=lake)))
