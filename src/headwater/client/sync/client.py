"""The blocking client: the same calls as the async one, without `await`."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from headwater.client.acls import AclAdmin
from headwater.client.client import AsyncClient
from headwater.client.client import connect as connect_awaiting
from headwater.client.sync.table import Table
from headwater.client.sync.tail import Cursors
from headwater.cluster.lake import (
    FailedRound,
    FinishedRound,
    HeartbeatAnswer,
    LakeCoordinator,
    ReportedSnapshot,
    TieringAssignment,
)
from headwater.cluster.paths import DEFAULT_DATABASE
from headwater.cluster.schema_in import OptionValue, SchemaLike
from headwater.config.client import ClientSettings
from headwater.model import LakeBucket, TablePath
from headwater.model.acl import Acl
from headwater.read.filters import Where
from headwater.runtime.loops import LoopThread

# Permissions.


class Acls:
    """Grants, revokes and lists permissions of a server that checks them, or of a directory."""

    def __init__(self, loop: LoopThread, admin: AclAdmin) -> None:
        self._loop = loop
        self._admin = admin

    def grant(
        self,
        principal: str,
        operations: str | Sequence[str],
        resource: str,
        *,
        host: str = "*",
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> list[Acl]:
        """Allow a principal to do something, and return the entries.

        A principal is `User:name`, `Group:name`, or `*` for everybody; a resource is `cluster`, the
        name of a database, or `database.table`. Granting twice is the same as once.

        READ on a table may be narrowed to `columns` and to the rows that a filter, as scans take
        it, holds for. That narrows what the principal reads of the table by whatever entry, also
        one for a group or a database; what it could read by this entry before is replaced.
        """
        return self._loop.run(
            self._admin.grant(
                principal, operations, resource, host=host, columns=columns, where=where
            )
        )

    def revoke(
        self,
        principal: str | None = None,
        operations: str | Sequence[str] = (),
        resource: str | None = None,
        *,
        host: str | None = None,
    ) -> list[Acl]:
        """Take back what was granted, and return the entries that are gone.

        What is left out matches everything. An operation is revoked as it was granted: revoking
        READ leaves an entry for ALL as it is. Sessions notice at once.
        """
        return self._loop.run(self._admin.revoke(principal, operations, resource, host=host))

    def list(
        self,
        principal: str | None = None,
        operations: str | Sequence[str] = (),
        resource: str | None = None,
        *,
        host: str | None = None,
    ) -> list[Acl]:
        """List the entries with these traits, of the resources that you may see."""
        return self._loop.run(self._admin.list(principal, operations, resource, host=host))

    def test(
        self,
        principal: str,
        operation: str,
        resource: str,
        *,
        groups: Sequence[str] = (),
        host: str = "",
    ) -> Acl | None:
        """Return the entry by which a user may do something, or None if there is none.

        Decided by the entries that you may see, as the server decides. Super users are a setting of
        the server, so they may do more than this says.
        """
        return self._loop.run(
            self._admin.test(principal, operation, resource, groups=groups, host=host)
        )


# The lake behind tables.


class Lake:
    """What tierers call: tables to tier, and what the server knows about the lake."""

    def __init__(self, loop: LoopThread, coordinator: LakeCoordinator) -> None:
        self._loop = loop
        self._coordinator = coordinator

    def heartbeat(  # noqa: PLR0913 - one argument per part of the message
        self,
        *,
        tiering: Iterable[TieringAssignment] = (),
        finished: Iterable[FinishedRound] = (),
        failed: Iterable[FailedRound] = (),
        request: bool = False,
        only_tables: Sequence[TablePath] = (),
        ignore_freshness: bool = False,
        list_states: bool = False,
    ) -> HeartbeatAnswer:
        """Keep tables, give them back, and with `request` ask for another one.

        `only_tables` and `ignore_freshness` restrict and extend which tables may be handed out;
        `list_states` asks for the state of all tables. Apache Fluss ignores these three.
        """
        return self._loop.run(
            self._coordinator.heartbeat(
                tiering=tiering,
                finished=finished,
                failed=failed,
                request=request,
                only_tables=only_tables,
                ignore_freshness=ignore_freshness,
                list_states=list_states,
            )
        )

    def prepare(
        self,
        path: str | TablePath,
        table_id: int,
        offsets: Mapping[LakeBucket, int],
        *,
        written_by: Mapping[LakeBucket, int] | None = None,
        ignore_previous: bool = False,
    ) -> str:
        """Have the server write the end offsets of a round to a file, and return its path.

        They are merged into the known ones, or with `ignore_previous` replace them. A server whose
        logs have another lineage than `written_by` rejects them.
        """
        return self._loop.run(
            self._coordinator.prepare(
                path, table_id, offsets, written_by=written_by, ignore_previous=ignore_previous
            )
        )

    def commit(
        self,
        table_id: int,
        snapshot_id: int,
        offsets_path: str,
        *,
        earliest_kept: int | None = None,
        ends: Mapping[LakeBucket, int] | None = None,
    ) -> None:
        """Report that a lake snapshot has the rows up to the offsets in a prepared file.

        Snapshots from `earliest_kept` on stay known; by default only the new one does. `ends` are
        the same offsets again: Apache Fluss tells its tablet servers from them which rows they need
        not keep.
        """
        self._loop.run(
            self._coordinator.commit(
                table_id, snapshot_id, offsets_path, earliest_kept=earliest_kept, ends=ends
            )
        )

    def snapshot(
        self, path: str | TablePath, snapshot_id: int | None = None, *, readable: bool = False
    ) -> ReportedSnapshot | None:
        """Return what is known of a snapshot, by default the newest; None if unknown."""
        return self._loop.run(self._coordinator.snapshot(path, snapshot_id, readable=readable))


# The client.

T = TypeVar("T")


class Client:
    """Access to a storage: one in this process, a server, or an Apache Fluss cluster.

    Created by `headwater.open` and `headwater.connect`; use it with `with`, or `close()` it. It may
    be shared by threads. Its work runs on its own thread.
    """

    def __init__(self, loop: LoopThread, client: AsyncClient) -> None:
        self._loop = loop
        self._client = client

    @classmethod
    def start(cls, opening: Coroutine[object, object, AsyncClient]) -> "Client":
        """Open an async client on a new thread, and wrap it in a blocking one."""
        # by hand: it makes the thread that all others use
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
        """Address at which other processes reach this storage; None if they cannot."""
        # by hand: an attribute of the client that awaits
        return self._client.address

    @property
    def is_open(self) -> bool:
        """Tell whether the client can still be used.

        >>> hw.is_open
        True
        """
        # by hand: asks the thread
        return self._loop.is_open

    @property
    def cursors(self) -> Cursors:
        """Manage cursors: list, describe, reset and delete them.

        >>> hw.cursors.list()
        []
        """
        return Cursors(self._loop, self._client.cursors)

    @property
    def lake(self) -> Lake:
        """The tiering protocol: tables to tier, and what is known of the lake.

        >>> hw.lake.heartbeat(list_states=True).states
        ()
        """
        return Lake(self._loop, self._client.lake)

    def run(self, work: Callable[[AsyncClient], Coroutine[object, object, T]]) -> T:
        """Run a coroutine function with the async client behind this one, on its thread.

        >>> async def count_databases(client):
        ...     return len(await client.list_databases())
        >>> hw.run(count_databases)
        1
        """
        # by hand: takes a function, which gets the client that awaits
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
        """Drop a database; with `cascade` its tables too."""
        self._loop.run(self._client.drop_database(name, missing_ok=missing_ok, cascade=cascade))

    def list_databases(self) -> list[str]:
        """List all databases.

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
        primary_key: str | Sequence[str] | None = None,
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
        found = self._loop.run(
            self._client.create_table(
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
        )
        return Table(self._loop, found)

    def table(self, path: str | TablePath) -> Table:
        """Open a table by name; `t$changelog` and `t$binlog` are its virtual tables.

        >>> hw.table("shop.clicks").schema.names
        ['page']
        """
        return Table(self._loop, self._loop.run(self._client.table(path)))

    def table_exists(self, path: str | TablePath) -> bool:
        """Tell whether the table exists.

        >>> hw.table_exists("shop.nothing")
        False
        """
        return self._loop.run(self._client.table_exists(path))

    def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """List the tables of a database.

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
        """Write what is still pending and close the storage or connection."""
        # by hand: ends the thread as well
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

    @property
    def acls(self) -> Acls:
        """Manage permissions: grant, revoke, list and test them.

        >>> hw.acls.grant("User:ada", ["READ", "WRITE"], "shop.orders")
        ... # doctest: +ELLIPSIS
        [Acl(...), Acl(...)]
        >>> print(hw.acls.test("User:ada", "READ", "shop.orders"))
        User:ada may READ on table:shop.orders
        >>> len(hw.acls.revoke("User:ada"))
        2
        """
        return Acls(self._loop, self._client.acls)


def connect(  # noqa: PLR0913 - one argument per choice
    address: str | Sequence[str],
    *,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    mechanism: str | None = None,
    tls: bool | None = None,
    tls_ca_file: str | None = None,
    tls_certificate_file: str | None = None,
    tls_key_file: str | None = None,
    tls_server_name: str | None = None,
    settings: ClientSettings | None = None,
    lake: Mapping[str, str] | None = None,
) -> Client:
    """Connect to a Headwater server or an Apache Fluss cluster, by one or more of its addresses.

    With `tls` the connection is encrypted, and the server has to prove itself by a certificate of
    `tls_ca_file`, or of the system's CAs; a certificate of one's own is in `tls_certificate_file`.
    These override the settings of the same names. `lake` holds options of the lake's catalog, such
    as credentials, that override those that the server sends.

    >>> import headwater
    >>> with headwater.open(directory / "shared", listen=True) as storage:
    ...     with headwater.connect(storage.address) as other:
    ...         other.list_databases()
    ['fluss']
    """
    return Client.start(
        connect_awaiting(
            address,
            user=user,
            password=password,
            token=token,
            mechanism=mechanism,
            tls=tls,
            tls_ca_file=tls_ca_file,
            tls_certificate_file=tls_certificate_file,
            tls_key_file=tls_key_file,
            tls_server_name=tls_server_name,
            settings=settings,
            lake=lake,
        )
    )
