"""A PostgreSQL server as a source: what it must allow, its tables, its slot and publication."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection  # noqa: N812 - it is a class
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class
from psycopg2.extras import LogicalReplicationConnection

from headwater import errors
from headwater.pipelines.ingest.form import PostgresSource, SourceTable
from headwater.pipelines.ingest.postgres.changes import TableShape
from headwater.pipelines.ingest.postgres.column_types import data_type_of
from headwater.pipelines.ingest.postgres.pgoutput import ReplicaIdentity

CONNECT_WITHIN_S = 10
# How values are written as text, whatever the server and the user have set.
_TEXT_FORMS = (
    "-c datestyle=ISO -c timezone=UTC -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=1 -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
VERSION_MIN = 120_000
_ROOTS_VERSION_MIN = 130_000
_DUPLICATE = "42710"


def format_lsn(lsn: int) -> str:
    """Write a position of the log as PostgreSQL does."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Parse a position of the log."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def connect(source: PostgresSource, *, replicates: bool = False) -> Connection:
    """Open a connection; raises if there is none to be had."""
    try:
        return psycopg2.connect(
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password,
            dbname=source.database,
            sslmode=source.ssl_mode,
            connect_timeout=CONNECT_WITHIN_S,
            application_name="headwater",
            client_encoding="UTF8",
            options=_TEXT_FORMS,
            connection_factory=LogicalReplicationConnection if replicates else None,
        )
    except psycopg2.OperationalError as fault:
        raise lost(source, fault) from fault


def lost(source: PostgresSource, fault: BaseException) -> errors.HeadwaterError:
    """The error of a connection that broke or was refused."""
    text = " ".join(str(fault).split())
    where = f"PostgreSQL at {source.host}:{source.port}"
    if "authentication failed" in text or "no pg_hba.conf entry" in text:
        return errors.AccessError(
            f"{where} does not let '{source.user}' in: {text}",
            hint="Check user and password, and that pg_hba.conf has a line for this machine.",
        )
    if "does not exist" in text:
        return errors.MissingError(f"{where}: {text}")
    return errors.DisconnectedError(f"{where} cannot be reached: {text}")


@contextmanager
def reading(source: PostgresSource) -> Iterator[Cursor]:
    """A cursor of a connection that commits each statement."""
    made = connect(source)
    try:
        made.autocommit = True
        with made.cursor() as cursor:
            yield cursor
    except psycopg2.OperationalError as fault:
        raise lost(source, fault) from fault
    except psycopg2.errors.InsufficientPrivilege as fault:
        raise _not_allowed(source, fault) from fault
    finally:
        made.close()


def _not_allowed(source: PostgresSource, fault: Exception) -> errors.AccessError:
    return errors.AccessError(
        f"PostgreSQL refuses something to '{source.user}': {' '.join(str(fault).split())}",
        hint="The user needs LOGIN and REPLICATION, SELECT on the tables, and has to own them, or "
        f"an administrator runs CREATE PUBLICATION {source.publication} FOR TABLE … for it.",
    )


# What the server must allow.


def check_server(source: PostgresSource, cursor: Cursor) -> int:
    """Check version and settings, and return the version."""
    version = int(_one(cursor, "SHOW server_version_num"))
    if version < VERSION_MIN:
        raise errors.UnsupportedError(
            f"PostgreSQL {version // 10_000} is too old: version 12 is the first that is read."
        )
    level = _one(cursor, "SHOW wal_level")
    if level != "logical":
        raise errors.RequestError(
            f"The setting wal_level of PostgreSQL is '{level}', so it keeps no changes of rows.",
            hint="Run ALTER SYSTEM SET wal_level = 'logical', and restart PostgreSQL; in a managed "
            "cloud, set logical replication in the parameters of the instance.",
        )
    cursor.execute("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user")
    if not _first(cursor)[0] and not _is_member(cursor, "rds_replication"):
        raise errors.AccessError(
            f"The user '{source.user}' may not replicate.",
            hint=f'Run ALTER ROLE "{source.user}" WITH REPLICATION as an administrator.',
        )
    return version


def _is_member(cursor: Cursor, role: str) -> bool:
    cursor.execute(
        "SELECT coalesce(bool_or(pg_has_role(oid, 'member')), false) FROM pg_roles"
        " WHERE rolname = %s",
        (role,),
    )
    return bool(_first(cursor)[0])


def _one(cursor: Cursor, statement: str) -> str:
    cursor.execute(statement)
    return str(_first(cursor)[0])


def _first(cursor: Cursor) -> tuple[object, ...]:
    row = cursor.fetchone()
    assert row is not None
    return row


# Its tables.


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table of the source with what is needed to follow it."""

    table: SourceTable
    shape: TableShape
    identity: ReplicaIdentity
    identity_columns: tuple[str, ...]
    """The columns of the index that is the replica identity."""
    defaults: frozenset[str]
    """Columns with a default: rows may have got a value without a change that tells of it."""


_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relreplident
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'
ORDER BY 2, 3
"""
_COLUMNS = """
SELECT attrelid, attname, atttypid, atttypmod, atthasdef FROM pg_attribute
WHERE attrelid = ANY(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attrelid, attnum
"""
_KEYS = """
SELECT i.indrelid, a.attname, i.indisprimary, i.indisreplident
FROM pg_index AS i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ANY(%s) AND (i.indisprimary OR i.indisreplident)
ORDER BY i.indrelid, i.indexrelid, k.place
"""


def find_tables(source: PostgresSource, cursor: Cursor) -> list[FoundTable]:
    """The tables that are read, each with its columns and key."""
    cursor.execute(_TABLES)
    found = [row for row in cursor.fetchall() if source.wants(SourceTable(row[1], row[2]))]
    ids = [row[0] for row in found]
    cursor.execute(_COLUMNS, (ids,))
    columns: dict[int, list[tuple[str, int, int]]] = {each: [] for each in ids}
    defaults: dict[int, set[str]] = {each: set() for each in ids}
    for table_id, name, type_id, modifier, has_default in cursor.fetchall():
        columns[table_id].append((name, type_id, modifier))
        if has_default:
            defaults[table_id].add(name)
    cursor.execute(_KEYS, (ids,))
    keys: dict[int, list[str]] = {each: [] for each in ids}
    identities: dict[int, list[str]] = {each: [] for each in ids}
    for table_id, name, is_primary, is_identity in cursor.fetchall():
        if is_primary:
            keys[table_id].append(name)
        if is_identity:
            identities[table_id].append(name)
    return [
        FoundTable(
            SourceTable(schema, name),
            shape_of(columns[oid], keys[oid]),
            ReplicaIdentity(identity),
            tuple(identities[oid]),
            frozenset(defaults[oid]),
        )
        for oid, schema, name, identity in found
    ]


def shape_of(columns: Sequence[tuple[str, int, int]], key: Sequence[str]) -> TableShape:
    """The columns of a table, given with the ids of their types."""
    return TableShape(
        tuple(name for name, _, _ in columns),
        tuple(data_type_of(type_id, modifier) for _, type_id, modifier in columns),
        tuple(key),
    )


def check_tables(source: PostgresSource, tables: Sequence[FoundTable]) -> None:
    """Refuse tables whose changes could not be followed, all of them at once."""
    if not tables:
        names = ", ".join(each.text for each in source.tables)
        raise errors.MissingError(
            f"The database '{source.database}' has no table that fits {names}.",
            hint="Patterns are schema.table; the schema is usually 'public'.",
        )
    faults = [fault for fault in map(_table_fault, tables) if fault]
    if faults:
        raise errors.RequestError(" ".join(faults))


def _table_fault(found: FoundTable) -> str | None:
    table = found.table
    if not found.shape.key:
        return (
            f"The table {table} has no primary key, so its rows cannot be told apart: add one, or "
            "name it in 'tables.exclude'."
        )
    is_other_index = found.identity is ReplicaIdentity.INDEX and set(found.identity_columns) != set(
        found.shape.key
    )
    if found.identity is ReplicaIdentity.NOTHING or is_other_index:
        return (
            f"The replica identity of {table} is not its primary key, so deletes do not tell which "
            f'row is gone: run ALTER TABLE "{table.schema}"."{table.name}" REPLICA IDENTITY '
            "DEFAULT."
        )
    return None


# Its publication and its slot.


@dataclass(frozen=True, slots=True)
class SlotState:
    """How far a slot is."""

    confirmed_lsn: int
    restart_lsn: int
    active_pid: int | None
    is_lost: bool


def find_slot(source: PostgresSource, cursor: Cursor, version: int) -> SlotState | None:
    """The slot of a pipeline, or None if there is none."""
    lost_column = "wal_status = 'lost'" if version >= _ROOTS_VERSION_MIN else "false"
    cursor.execute(
        "SELECT plugin, database, confirmed_flush_lsn::text, restart_lsn::text, active_pid, "  # noqa: S608 - no value of a user
        f"coalesce({lost_column}, false) FROM pg_replication_slots WHERE slot_name = %s",
        (source.slot,),
    )
    row = cursor.fetchone()
    if row is None:
        return None
    plugin, database, confirmed, restart, pid, is_lost = row
    if plugin != "pgoutput" or database != source.database:
        raise errors.ConflictError(
            f"The replication slot '{source.slot}' belongs to {plugin} in '{database}'.",
            hint="Give 'slot.name' another value.",
        )
    return SlotState(parse_lsn(confirmed or "0/0"), parse_lsn(restart or "0/0"), pid, is_lost)


def create_slot(source: PostgresSource, cursor: Cursor) -> int:
    """Create the slot, and return where it begins; waits for all transactions that run now."""
    try:
        cursor.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput')",
            (source.slot,),
        )
    except psycopg2.errors.ConfigurationLimitExceeded as fault:
        raise errors.ConflictError(
            f"PostgreSQL has no room for another replication slot: {str(fault).strip()}",
            hint="Raise max_replication_slots, or drop slots that nobody uses.",
        ) from fault
    return parse_lsn(str(_first(cursor)[0]))


def drop_slot(source: PostgresSource, cursor: Cursor) -> None:
    """Drop the slot."""
    cursor.execute("SELECT pg_drop_replication_slot(%s)", (source.slot,))


def publish(
    source: PostgresSource, cursor: Cursor, tables: Sequence[SourceTable], version: int
) -> list[SourceTable]:
    """Publish all tables, and return those that were not published before."""
    name = sql.Identifier(source.publication)
    cursor.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s",
        (source.publication,),
    )
    known = {SourceTable(schema, table) for schema, table in cursor.fetchall()}
    new = [each for each in tables if each not in known]
    cursor.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (source.publication,))
    exists = cursor.fetchone() is not None
    if exists and not new:
        return []
    listed = sql.SQL(", ").join(sql.Identifier(each.schema, each.name) for each in new)
    if exists:
        cursor.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, listed))
        return new
    made = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(name, listed)
    if version >= _ROOTS_VERSION_MIN:
        made += sql.SQL(" WITH (publish_via_partition_root = true)")
    cursor.execute(made)
    return new


# Which transactions a read has seen.

_XID_BITS = 32
_XID_MASK = (1 << _XID_BITS) - 1
_XID_HALF = 1 << (_XID_BITS - 1)


@dataclass(frozen=True, slots=True)
class Visibility:
    """The transactions whose changes a read saw: all before `xmax` except those that still ran."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """Parse `xmin:xmax:xid,xid`, as PostgreSQL writes it."""
        xmin, xmax, running = text.split(":")
        return cls(
            int(xmin),
            int(xmax),
            frozenset(map(int, running.split(","))) if running else frozenset(),
        )

    def full(self, xid: int) -> int:
        """The whole number of a transaction of about this time, of which 32 bits are known."""
        found = (self.xmax & ~_XID_MASK) | xid
        if found > self.xmax + _XID_HALF:
            return found - (1 << _XID_BITS)
        return found + (1 << _XID_BITS) if found + _XID_HALF < self.xmax else found

    def saw(self, xid: int) -> bool:
        """Tell whether the changes of a committed transaction were seen; takes all bits or 32."""
        whole = xid if xid > _XID_MASK else self.full(xid)
        return whole < self.xmax and whole not in self.running


def visibility_now(cursor: Cursor) -> str:
    """What a statement of this moment sees, or, in a snapshot, what that sees."""
    return _one(cursor, "SELECT txid_current_snapshot()::text")


def log_end(cursor: Cursor, *, flushed: bool = False) -> int:
    """Where the log of the server ends, or the part of it that is sent to others."""
    which = "flush" if flushed else "insert"
    return parse_lsn(_one(cursor, f"SELECT pg_current_wal_{which}_lsn()::text"))
