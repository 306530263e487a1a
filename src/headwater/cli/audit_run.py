"""Runs `headwater audit` and `headwater repair`; loaded only when they run."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import typer
from rich.console import Console

from headwater import errors
from headwater.audit.files.catalog import CatalogSeen
from headwater.audit.files.lake import note_lake_gone
from headwater.audit.files.repair import Begin, Cure, Cut, Rebuild, prepared
from headwater.audit.files.repair_plan import RepairPlan
from headwater.audit.files.walk import audit_files, is_storage
from headwater.audit.report import (
    AuditReport,
    Check,
    Finding,
    Notes,
    Proof,
    Severity,
    Watch,
    no_watch,
)
from headwater.audit.tables import audit_storage
from headwater.cli.audit import AuditOptions
from headwater.cli.command import confirm, look, write
from headwater.cli.commands import BRANCHES
from headwater.cli.output import GAP, Document, Output, clean, form_of, table_of
from headwater.cli.target import DataDirectory, opened
from headwater.cli.upkeep import RepairOptions
from headwater.cluster.paths import table_path
from headwater.runtime.clock import SystemClock
from headwater.server.catalog.lock import DirectoryLock

# An audit's report as text: a line for each check, then the errors and what to do.

FINDING_TYPES = {
    "severity": pa.string(),
    "check": pa.string(),
    "table": pa.string(),
    "partition": pa.string(),
    "bucket": pa.int32(),
    "offset": pa.int64(),
    "message": pa.string(),
    "remedy": pa.string(),
}
_STORAGE = "storage"
_SINGULAR = {
    "batches": "batch",
    "buckets": "bucket",
    "changes": "change",
    "files": "file",
    "keys": "key",
    "positions": "position",
    "rows": "row",
    "snapshots": "snapshot",
}

Counts = Counter[tuple[Check, str | None]]


def report_text(report: AuditReport) -> str:
    """Format the whole report."""
    failures: Counts = Counter(
        (each.check, each.table) for each in report.findings if each.severity is Severity.ERROR
    )
    # Stable, so that the checks of a table stay in order.
    proofs = sorted(report.proofs, key=lambda proof: (proof.table is None, proof.table or ""))
    lines = [*_table([_cells(proof, failures) for proof in proofs])]
    for finding in sorted(report.findings, key=_order):
        lines += ["", *_finding_lines(finding)]
    return clean_lines([*lines, "", verdict(report)])


def verdict(report: AuditReport) -> str:
    """Summarise in one line whether all is well."""
    counts = Counter(each.severity for each in report.findings)
    failures, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    tables = len({proof.table for proof in report.proofs if proof.table is not None})
    looked = f"{_counted(tables, 'table')} in {report.duration_s:.1f} s"
    told = f", {_counted(warnings, 'warning')}" if warnings else ""
    if report.first_error is None:
        return f"Clean: no errors{told}; {looked}."
    place = report.first_error.place
    first = f" The first is at {place}." if place else ""
    return f"Not clean: {_counted(failures, 'error')}{told}; {looked}.{first}"


def finding_documents(findings: Iterable[Finding]) -> list[Document]:
    """Convert findings to rows."""
    return [
        {
            "severity": str(each.severity),
            "check": str(each.check),
            "table": each.table,
            "partition": each.partition,
            "bucket": each.bucket,
            "offset": each.offset,
            "message": each.message,
            "remedy": each.remedy,
        }
        for each in findings
    ]


def clean_lines(lines: Iterable[str]) -> str:
    """Join lines as text, without control characters for terminals."""
    return "".join(f"{clean(line)}\n" for line in lines)


def _cells(proof: Proof, failures: Counts) -> tuple[str, str, str, str, str]:
    count = failures[proof.check, proof.table]
    outcome = _counted(count, "error") if count else "ok"
    if proof.note and not count and not proof.amount:
        outcome = f"not proven: {proof.note}"
    elif proof.note:
        outcome += f", in part: {proof.note}"
    unit = _SINGULAR.get(proof.unit, proof.unit) if proof.amount == 1 else proof.unit
    return proof.table or _STORAGE, str(proof.check), f"{proof.amount:,}", unit, outcome


def _table(rows: Sequence[tuple[str, str, str, str, str]]) -> list[str]:
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    return [
        f"{table:<{widths[0]}}{GAP}{check:<{widths[1]}}{GAP}{amount:>{widths[2]}}"
        f" {unit:<{widths[3]}}{GAP}{outcome}"
        for table, check, amount, unit, outcome in rows
    ]


def _finding_lines(finding: Finding) -> list[str]:
    place = f"{finding.place}: " if finding.place else ""
    lines = [f"{finding.severity}: {place}{finding.message}"]
    if finding.remedy:
        lines.append(f"  what to do: {finding.remedy}")
    return lines


def _order(finding: Finding) -> bool:
    return finding.severity is not Severity.ERROR


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Audits: the files of a directory first, then the storage.

BAD = BRANCHES[errors.StorageError]
"""The exit code of an audit that found errors."""
_NOT_OPENED = (
    "not opened, since that would repair, and so hide, some of the damage to its files; audit "
    "again once they are repaired or served"
)
_MISTAKES = (
    errors.AccessError,
    errors.DirectoryInUseError,
    errors.MissingError,
    errors.RequestError,
)


def run_audit(options: AuditOptions) -> None:
    """Audit, print the report, and exit with its code."""
    clock = SystemClock()
    started_ms, started_s = clock.now_ms(), clock.monotonic()
    with _shown() as watch:
        notes = Notes(watch)
        if isinstance(options.target, DataDirectory):
            _audit_directory(options.target.path, options, notes)
        report = _storage_report(options, notes, watch).behind(_wanted(notes, options))
    report = replace(report, started_ms=started_ms, duration_s=clock.monotonic() - started_s)
    _print(report, options.output)
    if not report.is_clean:
        raise typer.Exit(BAD)


def _audit_directory(directory: Path, options: AuditOptions, notes: Notes) -> None:
    """Read the files while nobody has them open, before opening repairs some of them."""
    if not is_storage(directory):
        # Before the lock is taken, since that would leave a file.
        raise errors.MissingError(
            f"{directory} is not a data directory: there is nothing to audit.",
            hint="Pass the data directory of a server or program with --at.",
        )
    try:
        lock = DirectoryLock.take(directory)
    except errors.DirectoryInUseError as fault:
        raise errors.DirectoryInUseError(
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
    """Reject names of missing tables, unless the catalog is damaged and may have lost them."""
    if any(each.table is None for each in _errors(notes)):
        return
    for path in map(table_path, options.tables):
        if catalog.find(str(path)) is None:
            raise errors.TableMissingError(f"There is no table '{path}'.")


def _storage_report(options: AuditOptions, notes: Notes, watch: Watch) -> AuditReport:
    """Audit the storage, unless its files are bad: opening would repair, and so hide, some."""
    failures = _errors(notes)
    if not failures:
        return _audit_storage(options, watch)
    untouched = Proof(check=Check.READABLE, unit="tables", note=_NOT_OPENED)
    elsewhere = () if _errors(_wanted(notes, options)) else (_unproven(failures),)
    return AuditReport(findings=elsewhere, proofs=(untouched,), is_deep=options.is_deep)


def _unproven(failures: Sequence[Finding]) -> Finding:
    """Explain why the requested tables are not proven although their files are good."""
    names = ", ".join(sorted({str(each.table) for each in failures}))
    return Finding(
        check=Check.READABLE,
        message="The tables are not proven: the files of other tables are bad, those of "
        f"{names}, and opening the directory would repair, and so hide, some of it.",
        remedy="Audit all tables to see what is wrong, repair it, then audit again.",
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
    except errors.HeadwaterError as fault:
        if not isinstance(options.target, DataDirectory):
            raise
        # The files have been read, and may show why.
        message = f"Cannot open the storage: {fault.message}"
        finding = Finding(check=Check.READABLE, message=message, remedy=fault.hint)
        return AuditReport(findings=(finding,), is_deep=options.is_deep)


def _wanted(notes: Notes, options: AuditOptions) -> Notes:
    """Filter the notes on the requested tables, and on what belongs to no table."""
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
    """Show on standard error what is being checked, if that is a terminal."""
    if not sys.stderr.isatty():
        yield no_watch
        return
    with Console(stderr=True).status("auditing", spinner="line") as status:
        yield status.update


# Repairs: show what would be done, ask, and do it.


def run_repair(options: RepairOptions) -> None:
    """Plan, show, ask and repair, holding the directory all the while."""
    with prepared(
        options.directory,
        str(table_path(options.table)),
        bucket=options.bucket,
        partition=options.partition,
        cure=_cure(options),
    ) as repair:
        write(_text(repair.plan))
        if options.dry_run or not repair.plan.steps:
            return
        confirm(f"Repair bucket {options.bucket} of {options.table} as shown?", yes=options.yes)
        repair.carry_out()
        write(f"{repair.plan.outcome}\n")


def _cure(options: RepairOptions) -> Cure:
    if options.cut_at is not None:
        return Cut(options.cut_at)
    if options.begin_at is not None:
        return Begin(options.begin_at)
    return Rebuild.STATE if options.rebuilds_state else Rebuild.INDEX


def _text(plan: RepairPlan) -> str:
    if not plan.steps:
        return f"{plan.outcome}\n"
    steps = [f"  {number}. {step}" for number, step in enumerate(plan.steps, start=1)]
    return "\n".join(["Steps, in the log directory:", *steps, *plan.warnings, ""])
