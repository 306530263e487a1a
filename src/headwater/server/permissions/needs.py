"""What every call of the protocol needs: one table, in the words of Apache Fluss.

A call that is refused as a whole names its targets here, and is checked before its handler runs.
The others are checked where their answer is made: a list leaves out what the caller may not see,
and a call about several tables fails for those that the caller may not use.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from google.protobuf.message import Message

from headwater.model.acl import CLUSTER, Operation, Resource
from headwater.model.path import TablePath
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from headwater.wire.lookup import LookupRequest
from headwater.wire.write import ProduceRequest, PutRequest

Target = Resource | int
"""A resource by its name, or a table by its id."""
Request = Message | ProduceRequest | PutRequest | LookupRequest


AUDIT_LOG = TablePath("headwater", "audit_log")
"""The table of the audit trail, which only the server writes."""


class Otherwise(StrEnum):
    """What a caller without the permission gets."""

    SERVED = "served all the same"
    REFUSED = "refused"
    LEFT_OUT = "left out of the answer"
    FALSE = "answered with false"
    EACH_TABLE = "refused for that table, served for others"


class AuditKind(StrEnum):
    """Kinds of calls that the audit trail tells apart."""

    NONE = ""
    LOGIN = "login"
    DDL = "ddl"
    ACL = "acl"
    READ = "read"
    WRITE = "write"
    DESCRIBE = "describe"


class Gives(StrEnum):
    """What an answer tells of the rows of a table, for those who may not read all of them."""

    NOTHING = "nothing of its rows"
    ROWS = "rows: what may be read of them"
    COUNTS = "how many rows there are: refused if some are hidden"
    FILES = "where its files are: refused"
    TABLE = "the table: without the places of its lake"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one call needs, on what, and what happens without it."""

    operation: Operation | None
    on: str
    otherwise: Otherwise = Otherwise.REFUSED
    # What a request is about; None where that is found out while it is answered.
    targets: Callable[[Request], Iterable[Target]] | None = None
    kind: AuditKind = AuditKind.NONE
    note: str = ""

    @property
    def is_read(self) -> bool:
        """Tell whether an answer that comes late has to be checked once more."""
        return self.operation in (Operation.READ, Operation.DESCRIBE)


class _OfTable(Protocol):
    @property
    def table_id(self) -> int: ...


class _OfPath(Protocol):
    @property
    def table_path(self) -> pb.TablePath: ...


class _OfDatabase(Protocol):
    @property
    def database_name(self) -> str: ...


def resource_of(path: pb.TablePath | pb.PhysicalTablePath) -> Resource:
    """Return the table of a path as a resource."""
    return Resource.table(TablePath(path.database_name, path.table_name))


def _cluster(_: Request) -> Iterable[Target]:
    return (CLUSTER,)


def _database(request: _OfDatabase) -> Iterable[Target]:
    return (Resource.database(request.database_name),)


def _database_of_table(request: _OfPath) -> Iterable[Target]:
    return (Resource.database(request.table_path.database_name),)


def _path(request: _OfPath) -> Iterable[Target]:
    return (resource_of(request.table_path),)


def _table(request: _OfTable) -> Iterable[Target]:
    return (request.table_id,)


def _leased(request: pb.AcquireKvSnapshotLeaseRequest) -> Iterable[Target]:
    return {each.table_id for each in request.snapshots_to_lease}


def _released(request: pb.ReleaseKvSnapshotLeaseRequest) -> Iterable[Target]:
    return {each.table_id for each in request.buckets_to_release}


def _produced(request: pb.RegisterProducerOffsetsRequest) -> Iterable[Target]:
    return {each.table_id for each in request.table_offsets}


def _need(
    operation: Operation,
    on: str,
    targets: Callable[..., Iterable[Target]] | None,
    kind: AuditKind,
    *,
    otherwise: Otherwise = Otherwise.REFUSED,
    note: str = "",
) -> Need:
    return Need(
        operation=operation, on=on, targets=targets, kind=kind, otherwise=otherwise, note=note
    )


_OPEN = Need(operation=None, on="", otherwise=Otherwise.SERVED)
_HOLDS_NOTHING = Need(
    operation=None,
    on="",
    otherwise=Otherwise.SERVED,
    note="Apache Fluss needs READ on the tables of the lease, which has none here",
)
_LOGIN = Need(operation=None, on="", otherwise=Otherwise.SERVED, kind=AuditKind.LOGIN)
_C, _D, _T = "cluster", "database", "table"
_DDL, _ACL, _READ, _WRITE = AuditKind.DDL, AuditKind.ACL, AuditKind.READ, AuditKind.WRITE
_SEE = AuditKind.DESCRIBE
_OUT, _EACH = Otherwise.LEFT_OUT, Otherwise.EACH_TABLE
_A_TABLE_OF_IT = "or on one of its tables"
_ANY_WRITE = "one of the tables of the request is enough"
_TIERS = "a tierer needs READ as well, or gets no table to tier"

NEEDS: Mapping[ApiKey, Need] = MappingProxyType(
    {
        ApiKey.API_VERSIONS: _OPEN,
        ApiKey.AUTHENTICATE: _LOGIN,
        ApiKey.CREATE_DATABASE: _need(Operation.CREATE, _C, _cluster, _DDL),
        ApiKey.DROP_DATABASE: _need(Operation.DROP, _D, _database, _DDL),
        ApiKey.ALTER_DATABASE: _need(Operation.ALTER, _D, _database, _DDL),
        ApiKey.GET_DATABASE_INFO: _need(Operation.DESCRIBE, _D, _database, _SEE),
        ApiKey.LIST_DATABASES: _need(
            Operation.DESCRIBE, _D, None, _SEE, otherwise=_OUT, note=_A_TABLE_OF_IT
        ),
        ApiKey.DATABASE_EXISTS: _need(
            Operation.DESCRIBE,
            _D,
            None,
            _SEE,
            otherwise=Otherwise.FALSE,
            note=f"{_A_TABLE_OF_IT}; everybody may know of the default database",
        ),
        ApiKey.CREATE_TABLE: _need(Operation.CREATE, _D, _database_of_table, _DDL),
        ApiKey.DROP_TABLE: _need(Operation.DROP, _T, _path, _DDL),
        ApiKey.ALTER_TABLE: _need(Operation.ALTER, _T, _path, _DDL),
        ApiKey.GET_TABLE_INFO: _need(Operation.DESCRIBE, _T, _path, _SEE),
        ApiKey.GET_TABLE_SCHEMA: _need(Operation.DESCRIBE, _T, _path, _SEE),
        ApiKey.LIST_TABLES: _need(Operation.DESCRIBE, _T, None, _SEE, otherwise=_OUT),
        ApiKey.TABLE_EXISTS: _need(Operation.DESCRIBE, _T, None, _SEE, otherwise=Otherwise.FALSE),
        ApiKey.GET_METADATA: _need(Operation.DESCRIBE, _T, None, _SEE, otherwise=_OUT),
        ApiKey.CREATE_PARTITION: _need(Operation.WRITE, _T, _path, _DDL),
        ApiKey.DROP_PARTITION: _need(Operation.WRITE, _T, _path, _DDL),
        ApiKey.LIST_PARTITION_INFOS: _need(Operation.DESCRIBE, _T, _path, _SEE),
        ApiKey.INIT_WRITER: _need(Operation.WRITE, _T, None, _SEE, note=_ANY_WRITE),
        ApiKey.PRODUCE_LOG: _need(Operation.WRITE, _T, _table, _WRITE),
        ApiKey.PUT_KV: _need(
            Operation.WRITE,
            _T,
            _table,
            _WRITE,
            note="a condition on other tables needs DESCRIBE on them",
        ),
        ApiKey.FETCH_LOG: _need(Operation.READ, _T, None, _READ, otherwise=_EACH),
        ApiKey.LOOKUP: _need(
            Operation.READ, _T, _table, _READ, note="WRITE if missing rows are inserted"
        ),
        ApiKey.PREFIX_LOOKUP: _need(Operation.READ, _T, _table, _READ),
        ApiKey.LIMIT_SCAN: _need(Operation.READ, _T, _table, _READ),
        ApiKey.SCAN_KV: _need(
            Operation.READ, _T, None, _READ, note="checked for every part of a scan"
        ),
        ApiKey.GET_TABLE_STATS: _need(Operation.READ, _T, _table, _READ),
        ApiKey.LIST_OFFSETS: _need(Operation.DESCRIBE, _T, _table, _SEE),
        ApiKey.GET_LATEST_KV_SNAPSHOTS: _need(Operation.DESCRIBE, _T, _path, _SEE),
        ApiKey.GET_LAKE_SNAPSHOT: _need(Operation.DESCRIBE, _T, _path, _SEE),
        ApiKey.GET_FILESYSTEM_SECURITY_TOKEN: _need(
            Operation.READ, "any resource", None, _SEE, note="on whatever resource"
        ),
        ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT: _need(
            Operation.WRITE, _T, None, _WRITE, otherwise=_EACH
        ),
        ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT: _need(
            Operation.WRITE, _T, None, _WRITE, otherwise=_EACH
        ),
        ApiKey.LAKE_TIERING_HEARTBEAT: _need(
            Operation.WRITE, _T, None, _WRITE, otherwise=_EACH, note=_TIERS
        ),
        ApiKey.GET_KV_SNAPSHOT_METADATA: _need(Operation.DESCRIBE, _T, _table, _SEE),
        ApiKey.LIST_KV_SNAPSHOTS: _need(Operation.DESCRIBE, _T, _table, _SEE),
        ApiKey.LIST_REMOTE_LOG_MANIFESTS: _need(Operation.DESCRIBE, _T, _table, _SEE),
        ApiKey.ACQUIRE_KV_SNAPSHOT_LEASE: _need(Operation.READ, _T, _leased, _READ),
        ApiKey.RELEASE_KV_SNAPSHOT_LEASE: _need(Operation.READ, _T, _released, _READ),
        ApiKey.DROP_KV_SNAPSHOT_LEASE: _HOLDS_NOTHING,
        ApiKey.REGISTER_PRODUCER_OFFSETS: _need(Operation.WRITE, _T, _produced, _WRITE),
        ApiKey.GET_PRODUCER_OFFSETS: _need(Operation.READ, _T, None, _READ, otherwise=_OUT),
        ApiKey.DELETE_PRODUCER_OFFSETS: _need(
            Operation.WRITE, _T, None, _WRITE, note="on every table that the offsets are of"
        ),
        ApiKey.DESCRIBE_CLUSTER_CONFIGS: _need(Operation.DESCRIBE, _C, _cluster, _SEE),
        ApiKey.ALTER_CLUSTER_CONFIGS: _need(Operation.ALTER, _C, _cluster, _DDL),
        ApiKey.GET_CLUSTER_HEALTH: _need(Operation.DESCRIBE, _C, _cluster, _SEE),
        ApiKey.CREATE_ACLS: _need(
            Operation.ALL, "resource", None, _ACL, note="for a table: on its database"
        ),
        ApiKey.DROP_ACLS: _need(
            Operation.ALL, "resource", None, _ACL, note="for a table: on its database"
        ),
        ApiKey.LIST_ACLS: _need(Operation.DESCRIBE, "resource", None, _SEE, otherwise=_OUT),
    }
)

_ROWS = frozenset(
    {
        ApiKey.FETCH_LOG,
        ApiKey.LOOKUP,
        ApiKey.PREFIX_LOOKUP,
        ApiKey.LIMIT_SCAN,
        ApiKey.SCAN_KV,
    }
)
_FILES = frozenset(
    {
        ApiKey.GET_LAKE_SNAPSHOT,
        ApiKey.GET_FILESYSTEM_SECURITY_TOKEN,
        ApiKey.PREPARE_LAKE_TABLE_SNAPSHOT,
        ApiKey.COMMIT_LAKE_TABLE_SNAPSHOT,
        ApiKey.LAKE_TIERING_HEARTBEAT,
        ApiKey.GET_KV_SNAPSHOT_METADATA,
        ApiKey.LIST_KV_SNAPSHOTS,
        ApiKey.LIST_REMOTE_LOG_MANIFESTS,
        ApiKey.ACQUIRE_KV_SNAPSHOT_LEASE,
    }
)
_TABLES = frozenset({ApiKey.GET_TABLE_INFO, ApiKey.GET_METADATA})
# Schemas, names of tables and partitions, and offsets are told to all who may DESCRIBE.
_NO_ROWS = frozenset(NEEDS) - _ROWS - _FILES - _TABLES - {ApiKey.GET_TABLE_STATS}

GIVES: Mapping[ApiKey, Gives] = MappingProxyType(
    {
        **dict.fromkeys(_ROWS, Gives.ROWS),
        **dict.fromkeys(_FILES, Gives.FILES),
        **dict.fromkeys(_TABLES, Gives.TABLE),
        **dict.fromkeys(_NO_ROWS, Gives.NOTHING),
        ApiKey.GET_TABLE_STATS: Gives.COUNTS,
    }
)
"""What each call tells somebody who may not read all of a table."""


def operation_of(api: ApiKey, request: Request) -> Operation:
    """Return what a request needs; a lookup that inserts writes."""
    if isinstance(request, LookupRequest) and request.insert_if_not_exists:
        return Operation.WRITE
    operation = NEEDS[api].operation
    assert operation is not None
    return operation
