"""The client that blocks: the same calls as the one that awaits, without `await`."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from headwater.client.client import AsyncClient
from headwater.client.client import connect as connect_awaiting
from headwater.client.descriptors import OptionValue
from headwater.client.paths import DEFAULT_DATABASE
from headwater.client.schema_in import SchemaLike
from headwater.client.sync.cursor import Cursors
from headwater.client.sync.lake import Lake
from headwater.client.sync.table import Table
from headwater.config.client import ClientSettings
from headwater.model.path import TablePath
from headwater.runtime.loops import LoopThread

T = TypeVar("T")


class Client:
    """Reach a storage: one in this process, a server, or an Apache Fluss cluster.

    Made by `headwater.open` and `headwater.connect`; use it with `with`, or `close()` it. It may
    be shared by threads. Its work is done on a thread of its own.
    """

    def __init__(self, loop: LoopThread, client: AsyncClient) -> None:
        self._loop = loop
        self._client = client

    @classmethod
    def start(cls, opening: Coroutine[object, object, AsyncClient]) -> "Client":
        """Run what opens a client on a new thread, and return a client that blocks."""
        loop = LoopThread("headwater")
        try:
            return cls(loop, loop.run(opening))
        except BaseException:
            loop.close()
            raise

    def __repr__(self) -> str:
        return self._client.shown(self)

    @property
    def address(self) -> str | None:
        """Return where other processes reach this storage, or None if they cannot."""
        return self._client.address

    @property
    def is_open(self) -> bool:
        """Tell whether the client can still be used.

        >>> hw.is_open
        True
        """
        return self._loop.is_open

    @property
    def cursors(self) -> Cursors:
        """Return what looks after cursors: list, describe, reset and delete them.

        >>> hw.cursors.list()
        []
        """
        return Cursors(self._loop, self._client.cursors)

    @property
    def lake(self) -> Lake:
        """Return what tierers ask: tables to tier, and what is known of the lake.

        >>> hw.lake.heartbeat(list_states=True).states
        ()
        """
        return Lake(self._loop, self._client.lake)

    def run(self, work: Callable[[AsyncClient], Coroutine[object, object, T]]) -> T:
        """Run work that awaits, with the client behind this one and on its thread.

        >>> async def count_databases(client):
        ...     return len(await client.list_databases())
        >>> hw.run(count_databases)
        1
        """
        return self._loop.run(work(self._client))

    # ---- databases

    def create_database(
        self,
        name: str,
        *,
        exists_ok: bool = False,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a database.

        >>> hw.create_database("shop", exists_ok=True)
        """
        self._loop.run(
            self._client.create_database(
                name, exists_ok=exists_ok, comment=comment, properties=properties
            )
        )

    def drop_database(self, name: str, *, missing_ok: bool = False, cascade: bool = False) -> None:
        """Drop a database, and with `cascade` the tables in it."""
        self._loop.run(self._client.drop_database(name, missing_ok=missing_ok, cascade=cascade))

    def list_databases(self) -> list[str]:
        """Return the names of all databases.

        >>> hw.list_databases()
        ['fluss', 'shop']
        """
        return self._loop.run(self._client.list_databases())

    # ---- tables

    def create_table(  # noqa: PLR0913 - one argument per trait of a table
        self,
        path: str | TablePath,
        schema: SchemaLike,
        *,
        primary_key: str | Sequence[str] = (),
        partition_by: str | Sequence[str] = (),
        bucket_by: str | Sequence[str] = (),
        buckets: int | None = None,
        options: Mapping[str, OptionValue] | None = None,
        comment: str | None = None,
        auto_increment: str | Sequence[str] = (),
        exists_ok: bool = False,
    ) -> Table:
        """Create a table and return it.

        The schema is an Arrow schema, a pandas or Polars frame, a Spark schema, or a mapping of
        columns to types. With `primary_key` the table keeps the last row of each key; without,
        it is a log. Rows are spread over `buckets` by the hash of `bucket_by`.

        >>> import pyarrow as pa
        >>> clicks = hw.create_table("shop.clicks", pa.schema([("page", pa.string())]), buckets=2)
        >>> clicks
        Table('shop.clicks')
        """
        table = self._client.create_table(
            path,
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            bucket_by=bucket_by,
            buckets=buckets,
            options=options,
            comment=comment,
            auto_increment=auto_increment,
            exists_ok=exists_ok,
        )
        return Table(self._loop, self._loop.run(table))

    def table(self, path: str | TablePath) -> Table:
        """Return a table by name; `t$changelog` and `t$binlog` are its virtual tables.

        >>> hw.table("shop.clicks").schema.names
        ['page']
        """
        return Table(self._loop, self._loop.run(self._client.table(path)))

    def table_exists(self, path: str | TablePath) -> bool:
        """Tell whether there is such a table.

        >>> hw.table_exists("shop.nothing")
        False
        """
        return self._loop.run(self._client.table_exists(path))

    def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """Return the names of the tables of a database.

        >>> hw.list_tables("shop")
        ['clicks']
        """
        return self._loop.run(self._client.list_tables(database))

    def drop_table(self, path: str | TablePath, *, missing_ok: bool = False) -> None:
        """Drop a table and its rows.

        >>> hw.drop_table("shop.clicks")
        """
        self._loop.run(self._client.drop_table(path, missing_ok=missing_ok))

    # ---- life

    def close(self) -> None:
        """Write what is still pending and let go of the storage."""
        if not self._loop.is_open:
            return
        try:
            self._loop.run(self._client.close())
        finally:
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    address: str | Sequence[str],
    *,
    user: str | None = None,
    password: str | None = None,
    settings: ClientSettings | None = None,
    lake: Mapping[str, str] | None = None,
) -> Client:
    """Connect to a Headwater server or an Apache Fluss cluster, by one or more of its addresses.

    `lake` holds options of the lake's catalog, such as credentials, that stand above those that
    the server tells.

    >>> import headwater
    >>> with headwater.open(directory / "shared", listen=True) as storage:
    ...     with headwater.connect(storage.address) as other:
    ...         other.list_databases()
    ['fluss']
    """
    return Client.start(
        connect_awaiting(address, user=user, password=password, settings=settings, lake=lake)
    )
