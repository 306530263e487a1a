"""Restore a storage from its remote storage, and prove that one could; loaded only then."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

from headwater.cli.command import write
from headwater.cli.output import Output, Value, document_text
from headwater.cli.read import parse_time
from headwater.errors import CorruptFileError
from headwater.remote.objects import open_objects
from headwater.remote.proof import prove
from headwater.remote.restore import Progress, RemoteReport, restore
from headwater.runtime.clock import SystemClock

_MS = 1000


def moment_ms(text: str | None) -> int | None:
    """Read a time; without a zone it is in UTC."""
    return None if text is None else round(parse_time(text).timestamp() * _MS)


def run_restore(
    address: str,
    directory: Path,
    *,
    options: Mapping[str, str],
    until: str | None,
    progress: Progress,
) -> list[str]:
    """Restore a directory, and return what to tell of it."""
    objects = open_objects(address, options)
    report = restore(
        objects, directory, sleep=Event().wait, until_ms=moment_ms(until), progress=progress
    )
    amount = f"{_amount(report)}, {report.rows:,} rows"
    return [
        f"Restored {directory} as of {_time(report.at_ms)}: {amount}.",
        missing(report, now_ms=SystemClock().now_ms(), is_newest=until is None),
        f"Start it with: headwater serve {directory}",
    ]


def missing(report: RemoteReport, *, now_ms: int, is_newest: bool) -> str:
    """Say in seconds and rows what a restored storage may lack."""
    if not is_newest:
        return "Rows written after that are not in it."
    if report.is_last:
        return "Nothing is missing: the server had stopped, and everything was there."
    ago_s = max(now_ms - report.at_ms, 0) / _MS
    rate = f"{report.rows_per_s:,.1f} rows a second" if report.rows_per_s else "no rows"
    return (
        f"Rows that the server took after that, {ago_s:,.1f} s ago, are missing; when it was last "
        f"heard of, {rate} came in."
    )


def run_proof(
    address: str,
    *,
    options: Mapping[str, str],
    output: Output,
    progress: Progress,
    until: str | None = None,
) -> None:
    """Read all that a restore would read, print what was found, and fail if something is wrong."""
    proof = prove(open_objects(address, options), until_ms=moment_ms(until), progress=progress)
    report = proof.report
    if output is Output.TABLE:
        found = "no errors" if not proof.findings else f"{len(proof.findings)} errors"
        write(
            f"{report.address} as of {_time(report.at_ms)}: {_amount(report)}, {report.rows:,} "
            f"rows, {found}.\n"
        )
        if proof.unneeded_bytes:
            write(f"{proof.unneeded_bytes:,} bytes are left over from interrupted uploads.\n")
        write("".join(f"  {each}\n" for each in proof.findings))
    else:
        document: dict[str, Value] = {
            "address": report.address,
            "time": _time(report.at_ms),
            "commit": report.number,
            "owner": report.epoch,
            "files": report.file_count,
            "bytes": report.byte_count,
            "rows": report.rows,
            "unneeded_bytes": proof.unneeded_bytes,
            "findings": list(proof.findings),
        }
        write(document_text(document, output=output))
    if proof.findings:
        raise CorruptFileError(
            f"{report.address} cannot be restored as it is: {proof.findings[0]}",
            hint="An earlier moment may be whole: pass --to. A running server ships again what it "
            "still has when it is started with another --remote.",
        )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / _MS, UTC).isoformat(" ", "milliseconds")


def _amount(report: RemoteReport) -> str:
    return f"{report.file_count:,} files, {report.byte_count / 1e6:,.1f} MB"
