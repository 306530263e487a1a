"""The audit of a storage through its protocol: embedded, served, or an Apache Fluss cluster."""

from collections.abc import Sequence

from headwater.audit.cursors import audit_cursors
from headwater.audit.finding import Check, Finding
from headwater.audit.lakes.lake_audit import audit_lake
from headwater.audit.report import AuditReport, Notes
from headwater.audit.tables import audit_buckets
from headwater.audit.watching import Watch, no_watch
from headwater.client.client import AsyncClient
from headwater.client.paths import table_path
from headwater.client.sync.client import Client
from headwater.client.table import AsyncTable
from headwater.client.union.looking import has_lake
from headwater.errors import DatabaseMissingError, HeadwaterError, TableMissingError
from headwater.model.path import TablePath


async def audit_storage(
    client: AsyncClient,
    tables: Sequence[TablePath | str] = (),
    *,
    deep: bool = False,
    watch: Watch = no_watch,
) -> AuditReport:
    """Prove what can be proven of some tables, or of all; nothing is changed.

    1. Find the tables. 2. Audit each: logs, states, lake. 3. Audit the cursors.
    """
    clock = client.cluster.clock
    started_ms, started_s = clock.now_ms(), clock.monotonic()
    notes = Notes(watch)
    named = [table_path(each) for each in tables]
    for path in named:
        # A name that is wrong is the caller's mistake, and nothing to be found.
        await client.table(path)
    for path in named or await all_tables(client, notes):
        await audit_table(client, path, notes, deep=deep)
    await audit_cursors(client, notes, tables=named or None)
    return AuditReport(
        findings=notes.findings,
        proofs=notes.proofs,
        started_ms=started_ms,
        duration_s=clock.monotonic() - started_s,
        is_deep=deep,
    )


def audit(
    client: Client, tables: Sequence[TablePath | str] = (), *, deep: bool = False
) -> AuditReport:
    """Prove what can be proven of some tables, or of all, and wait for the report."""
    return client.run(lambda awaiting: audit_storage(awaiting, tables, deep=deep))


async def all_tables(client: AsyncClient, notes: Notes) -> list[TablePath]:
    """Return every table of every database."""
    found: list[TablePath] = []
    for database in await client.list_databases():
        try:
            found += [TablePath(database, name) for name in await client.list_tables(database)]
        except DatabaseMissingError:
            continue
        except HeadwaterError as fault:
            message = f"The tables of {database} cannot be listed: {fault.message}"
            notes.bad(Finding(check=Check.READABLE, message=message, remedy=fault.hint))
    return found


async def audit_table(client: AsyncClient, path: TablePath, notes: Notes, *, deep: bool) -> None:
    """Audit one table; what cannot be read becomes a finding."""
    try:
        table = await client.table(path)
        await _audit_parts(table, notes, deep=deep)
    except TableMissingError:
        return  # It was dropped since.
    except HeadwaterError as fault:
        notes.bad(
            Finding(
                check=Check.READABLE,
                table=str(path),
                message=f"The table cannot be read: {fault.message}",
                remedy=fault.hint,
            )
        )


async def _audit_parts(table: AsyncTable, notes: Notes, *, deep: bool) -> None:
    await audit_buckets(table, notes, deep=deep)
    if has_lake(table.info):
        await audit_lake(table, notes, deep=deep)
