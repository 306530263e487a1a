"""An audit's report as people read it: a line for each proof, then what is wrong and what to do."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa

from headwater.audit.finding import Check, Finding, Proof, Severity
from headwater.audit.report import AuditReport
from headwater.cli.layout import GAP, clean
from headwater.cli.output import Document

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
    """Return the whole report."""
    errors: Counts = Counter(
        (each.check, each.table) for each in report.findings if each.severity is Severity.ERROR
    )
    # Stable, so that the checks of a table stay in their order.
    proofs = sorted(report.proofs, key=lambda proof: (proof.table is None, proof.table or ""))
    lines = [*_table([_cells(proof, errors) for proof in proofs])]
    for finding in sorted(report.findings, key=_order):
        lines += ["", *_finding_lines(finding)]
    return clean_lines([*lines, "", verdict(report)])


def verdict(report: AuditReport) -> str:
    """Return in one line whether all is well."""
    counts = Counter(each.severity for each in report.findings)
    errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
    tables = len({proof.table for proof in report.proofs if proof.table is not None})
    looked = f"{_counted(tables, 'table')} in {report.duration_s:.1f} s"
    told = f", {_counted(warnings, 'warning')}" if warnings else ""
    if report.first_error is None:
        return f"Clean: no errors{told}; {looked}."
    place = report.first_error.place
    first = f" The first is at {place}." if place else ""
    return f"Not clean: {_counted(errors, 'error')}{told}; {looked}.{first}"


def finding_documents(findings: Iterable[Finding]) -> list[Document]:
    """Return findings as rows."""
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
    """Return lines as text, without what could change a terminal."""
    return "".join(f"{clean(line)}\n" for line in lines)


def _cells(proof: Proof, errors: Counts) -> tuple[str, str, str, str, str]:
    count = errors[proof.check, proof.table]
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
