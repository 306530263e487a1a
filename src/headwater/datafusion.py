"""Headwater in DataFusion: `headwater.datafusion.install(ctx)`, then `fluss_read(...)` in SQL.

It needs the extra `headwater[datafusion]`.
"""

from collections.abc import Mapping

from headwater.client.sync.scan import View
from headwater.client.sync.table import Table
from headwater.engines.storages import StoragePlace, ViewRequest, opened

try:
    from datafusion import SessionContext, udtf

    from headwater.engines.datafusion import NAME, FlussRead, Storage, in_words, table_of
except ModuleNotFoundError as fault:
    if fault.name != "datafusion":
        raise
    raise ModuleNotFoundError(
        "The package 'datafusion' is not installed. Run: pip install 'headwater[datafusion]'",
        name=fault.name,
    ) from fault

__all__ = ["install", "register"]


def install(
    ctx: SessionContext,
    at: StoragePlace | None = None,
    *,
    alias: str = "hw",
    lake: Mapping[str, str] | None = None,
) -> None:
    """Let SQL read tables, lake and log as one, each query as they are then.

    `fluss_read(bootstrap, database, table[, mode[, token]])` is a table function. With `at` (a
    client, `host:port`, or a data directory) there is a catalog as well, `FROM hw.database.table`,
    and `fluss_read(database, table[, mode[, token]])`. Two reads in one query may see two
    positions, unless they name the same token.

    >>> import datafusion, headwater.datafusion
    >>> ctx = datafusion.SessionContext()
    >>> headwater.datafusion.install(ctx, hw)
    >>> ctx.sql("SELECT count(*) AS n FROM hw.fluss.orders").to_pydict()
    {'n': [102]}
    """
    if at is not None:
        in_words(lambda: opened(at, lake=lake))
        ctx.register_catalog_provider(alias, Storage(at=at, lake=lake))
    ctx.register_udtf(udtf(FlussRead(at=at, lake=lake), NAME))


def register(ctx: SessionContext, name: str, source: Table | View) -> None:
    """Give a table a name in SQL, with the rows that it has now, or those of a view.

    >>> headwater.datafusion.register(ctx, "now", orders.view())
    >>> ctx.sql("SELECT max(id) AS m FROM now").to_pydict()
    {'m': [101]}
    """
    ctx.register_table(name, table_of(source, ViewRequest()))
