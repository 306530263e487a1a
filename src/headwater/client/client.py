"""The async client: databases, tables, and the way to their rows."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.client.acls import AclAdmin
from headwater.client.cursors.admin import CursorAdmin
from headwater.client.table import AsyncTable
from headwater.cluster.admin import Admin
from headwater.cluster.blocking import BlockingConnections
from headwater.cluster.cluster import Cluster
from headwater.cluster.lake import LakeCoordinator
from headwater.cluster.links import Pool, TcpDialer
from headwater.cluster.login import Credentials, Tls, with_security
from headwater.cluster.paths import DEFAULT_DATABASE, advised, parse_addresses, table_path
from headwater.cluster.schema_in import OptionValue, SchemaLike, descriptor_of
from headwater.config.client import ClientSettings
from headwater.errors import DatabaseMissingError, TableMissingError
from headwater.lake.lakes import Lakes
from headwater.model.path import TablePath
from headwater.read.virtual import split_virtual
from headwater.rows.columns import shown
from headwater.runtime.clock import SystemClock
from headwater.write.target import WriteContext


class AsyncClient:
    """A client of a storage: one in this process, a server, or an Apache Fluss cluster.

    Made by `headwater.aio.open` and `headwater.aio.connect`; use it with `async with`, or `await
    close()` at the end.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        address: str | None = None,
        directory: Path | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.address = address
        self.directory = directory
        self._cluster = cluster
        self._admin = Admin(cluster)
        self._writers = WriteContext(cluster)
        self._on_close = on_close
        self._is_closed = False

    def __repr__(self) -> str:
        return self.shown(self)

    def shown(self, thing: object) -> str:
        """Format a client for display: this one, or one that wraps it."""
        if self.directory is None:
            return shown(thing, self.address or "")
        fields = {} if self.address is None else {"address": self.address}
        return shown(thing, str(self.directory), **fields)

    @property
    def cluster(self) -> Cluster:
        """The servers behind the client, for code built on top of it."""
        return self._cluster

    @property
    def acls(self) -> AclAdmin:
        """Manage permissions: grant, revoke, list and test them."""
        return AclAdmin(self._cluster)

    @property
    def cursors(self) -> CursorAdmin:
        """Manage cursors: list, describe, reset and delete them."""
        return CursorAdmin(
            self._cluster, lambda info: AsyncTable(info, self._cluster, self._writers)
        )

    @property
    def lake(self) -> LakeCoordinator:
        """The tiering protocol: tables to tier, and what is known of the lake."""
        return LakeCoordinator(self._cluster)

    # ---- databases

    async def create_database(
        self,
        name: str,
        *,
        exists_ok: bool = False,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a database."""
        await self._admin.create_database(
            name, exists_ok=exists_ok, comment=comment, properties=properties or {}
        )

    async def drop_database(
        self, name: str, *, missing_ok: bool = False, cascade: bool = False
    ) -> None:
        """Drop a database; with `cascade` its tables too."""
        await self._admin.drop_database(name, missing_ok=missing_ok, cascade=cascade)

    async def list_databases(self) -> list[str]:
        """List all databases."""
        return await self._admin.list_databases()

    # ---- tables

    async def create_table(  # noqa: PLR0913 - one argument per trait of a table
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
    ) -> AsyncTable:
        """Create a table and return it.

        The schema is an Arrow schema, a pandas or Polars frame, a Spark schema, or a mapping of
        columns to types. With `primary_key` the table keeps the last row of each key; without,
        it is a log. Rows are spread over `buckets` by the hash of `bucket_by`.
        """
        descriptor = descriptor_of(
            schema,
            primary_key=primary_key,
            partition_by=partition_by,
            bucket_by=bucket_by,
            buckets=buckets,
            options=options or {},
            comment=comment,
            auto_increment=auto_increment,
        )
        info = await self._admin.create_table(table_path(path), descriptor, exists_ok=exists_ok)
        return AsyncTable(info, self._cluster, self._writers)

    async def table(self, path: str | TablePath) -> AsyncTable:
        """Open a table by name; `t$changelog` and `t$binlog` are its virtual tables."""
        base, kind = split_virtual(str(path))
        wanted = table_path(base)
        try:
            info = await self._cluster.table(wanted)
        except (DatabaseMissingError, TableMissingError) as fault:
            raise await advised(fault, wanted, self._admin) from None
        return AsyncTable(info, self._cluster, self._writers, virtual=kind)

    async def table_exists(self, path: str | TablePath) -> bool:
        """Tell whether the table exists."""
        return await self._admin.table_exists(table_path(path))

    async def list_tables(self, database: str = DEFAULT_DATABASE) -> list[str]:
        """List the tables of a database."""
        return await self._admin.list_tables(database)

    async def drop_table(self, path: str | TablePath, *, missing_ok: bool = False) -> None:
        """Drop a table and its rows."""
        await self._admin.drop_table(table_path(path), missing_ok=missing_ok)

    # ---- life

    async def close(self) -> None:
        """Write what is still pending and close the storage or connection."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._writers.close()
        finally:
            await self._cluster.close()
            if self._on_close is not None:
                await self._on_close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


async def connect(  # noqa: PLR0913 - one argument per choice
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
) -> AsyncClient:
    """Connect to a Headwater server or an Apache Fluss cluster, by one or more of its addresses.

    With `tls` the connection is encrypted, and the server has to prove itself by a certificate of
    `tls_ca_file`, or of the system's CAs; a certificate of one's own is in `tls_certificate_file`.
    These override the settings of the same names. `lake` contains options of the lake catalog, such
    as credentials, that override the server's.
    """
    settings = with_security(
        settings or ClientSettings(),
        mechanism=mechanism,
        tls=tls,
        tls_ca_file=tls_ca_file,
        tls_certificate_file=tls_certificate_file,
        tls_key_file=tls_key_file,
        tls_server_name=tls_server_name,
    )
    credentials = Credentials.of(settings, user=user, password=password, token=token)
    secured, timeout_s = Tls.of(settings), settings.connect_timeout_s
    addresses = parse_addresses(address)
    cluster = Cluster(
        addresses,
        Pool(TcpDialer(credentials, timeout_s, secured)),
        settings=settings,
        clock=SystemClock(),
        lakes=Lakes(config=lake or {}),
        blocking=BlockingConnections(
            credentials, timeout_s=timeout_s, clock=SystemClock(), tls=secured
        ),
    )
    try:
        await cluster.connect()
    except BaseException:
        await cluster.close()
        raise
    return AsyncClient(cluster, address=",".join(map(str, addresses)))
