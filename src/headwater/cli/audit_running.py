"""Running an audit from the command line: the files of a directory first, then the storage."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from headwater.audit.auditing import audit_storage
from headwater.audit.files.catalog_seen import CatalogSeen
from headwater.audit.files.lake_metadata import note_lake_gone
from headwater.audit.files.walking import audit_files, is_storage
from headwater.audit.finding import Check, Finding, Proof, Severity
from headwater.audit.report import AuditReport, Notes
from headwater.audit.watching import Watch, no_watch
from headwater.cli.audit import AuditOptions
from headwater.cli.audit_text import FINDING_TYPES, finding_documents, report_text
from headwater.cli.exits import BRANCHES
from headwater.cli.opening import opened
from headwater.cli.output import Output, form_of, table_of
from headwater.cli.session import look, write
from headwater.cli.target import Directory
from headwater.client.paths import table_path
from headwater.errors import (
    AccessError,
    DirectoryInUseError,
    HeadwaterError,
    MissingError,
    RequestError,
    StorageError,
    TableMissingError,
)
from headwater.runtime.clock import SystemClock
from headwater.server.catalog.lock import DirectoryLock

BAD = BRANCHES[StorageError]
"""The exit code of an audit that found something wrong."""
_NOT_OPENED = (
    "not opened, as that would mend, and so hide, some of what is wrong with its files; once they"
    " are in order, or served, audit again"
)
_MISTAKES = (AccessError, DirectoryInUseError, MissingError, RequestError)


def run_audit(options: AuditOptions) -> None:
    """Audit, print the report, and exit as it asks."""
    clock = SystemClock()
    started_ms, started_s = clock.now_ms(), clock.monotonic()
    with _shown() as watch:
        notes = Notes(watch)
        if isinstance(options.target, Directory):
            _audit_directory(options.target.path, options, notes)
        report = _storage_report(options, notes, watch).behind(_wanted(notes, options))
    report = replace(report, started_ms=started_ms, duration_s=clock.monotonic() - started_s)
    _print(report, options.output)
    if not report.is_clean:
        raise typer.Exit(BAD)


def _audit_directory(directory: Path, options: AuditOptions, notes: Notes) -> None:
    """Read the files while nobody has them open, before opening mends what it can."""
    if not is_storage(directory):
        # Before the lock is taken, which would leave a file here.
        raise MissingError(
            f"{directory} is no data directory: there is nothing to audit.",
            hint="Give the directory that a server or program has its data in, with --at.",
        )
    try:
        lock = DirectoryLock.take(directory)
    except DirectoryInUseError as fault:
        raise DirectoryInUseError(
            fault.message,
            hint="Audit it through the process that has it open: headwater audit --at HOST:PORT",
        ) from fault
    try:
        catalog = audit_files(directory, notes, deep=options.is_deep)
        if catalog is not None and not options.lake:
            note_lake_gone(directory, catalog, notes)
    finally:
        lock.release()
    if catalog is not None:
        _check_names(catalog, options, notes)


def _check_names(catalog: CatalogSeen, options: AuditOptions, notes: Notes) -> None:
    """Refuse names of no table, unless the catalog is damaged and may have lost it."""
    if any(each.table is None for each in _errors(notes)):
        return
    for path in map(table_path, options.tables):
        if catalog.find(str(path)) is None:
            raise TableMissingError(f"There is no table '{path}'.")


def _storage_report(options: AuditOptions, notes: Notes, watch: Watch) -> AuditReport:
    """Audit the storage, unless its files are bad: opening would mend, and so hide, some of it."""
    errors = _errors(notes)
    if not errors:
        return _audit_storage(options, watch)
    untouched = Proof(check=Check.READABLE, unit="tables", note=_NOT_OPENED)
    elsewhere = () if _errors(_wanted(notes, options)) else (_unproven(errors),)
    return AuditReport(findings=elsewhere, proofs=(untouched,), is_deep=options.is_deep)


def _unproven(errors: Sequence[Finding]) -> Finding:
    """Say why the tables that were asked for are not proven, though their files are good."""
    names = ", ".join(sorted({str(each.table) for each in errors}))
    return Finding(
        check=Check.READABLE,
        message="What was asked for is not proven: the files of other tables are bad, those of"
        f" {names}, and opening the directory would mend, and so hide, some of it.",
        remedy="See what is wrong by an audit of all tables. Once it is in order, or the directory"
        " is served, audit again.",
    )


def _errors(notes: Notes) -> list[Finding]:
    return [each for each in notes.findings if each.severity is Severity.ERROR]


def _audit_storage(options: AuditOptions, watch: Watch) -> AuditReport:
    try:
        with opened(
            options.target,
            options.credentials,
            timeout_s=options.timeout_s,
            waits=options.waits,
            lake=options.lake,
        ) as client:
            return client.run(
                lambda awaiting: audit_storage(
                    awaiting, options.tables, deep=options.is_deep, watch=watch
                )
            )
    except _MISTAKES:
        raise
    except HeadwaterError as fault:
        if not isinstance(options.target, Directory):
            raise
        # The files have been read, and may tell why.
        message = f"The storage cannot be opened: {fault.message}"
        finding = Finding(check=Check.READABLE, message=message, remedy=fault.hint)
        return AuditReport(findings=(finding,), is_deep=options.is_deep)


def _wanted(notes: Notes, options: AuditOptions) -> Notes:
    """Return what was noted of the wanted tables, and of what belongs to none."""
    if not options.tables:
        return notes
    names = {None, *(str(table_path(name)) for name in options.tables)}
    wanted = Notes()
    wanted.take(
        [each for each in notes.findings if each.table in names],
        [each for each in notes.proofs if each.table in names],
    )
    return wanted


def _print(report: AuditReport, output: Output) -> None:
    match output:
        case Output.JSON:
            write(f"{report.to_json()}\n")
        case Output.TABLE:
            write(report_text(report))
        case Output.CSV:
            table = table_of(finding_documents(report.findings), columns=FINDING_TYPES)
            form = form_of(output, look())
            write(form.head(table.schema) + "".join(map(form.rows, table.to_batches())))


@contextmanager
def _shown() -> Iterator[Watch]:
    """Show what is being looked at on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield no_watch
        return
    with Console(stderr=True).status("auditing", spinner="line") as status:
        yield status.update
