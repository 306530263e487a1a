"""What a tierer tells, as lines for people and rows for programs."""

from datetime import UTC, datetime
from typing import assert_never

import pyarrow as pa

from headwater.cli.output import Document
from headwater.tiering.progress import Began, Copied, Ended, Failed, Kept, News, Stepped, Waits

COLUMN_TYPES = {
    "table": pa.string(),
    "status": pa.string(),
    "rows": pa.int64(),
    "files": pa.int64(),
    "bytes": pa.int64(),
    "snapshot": pa.int64(),
    "seconds": pa.float64(),
    "rows_left": pa.int64(),
    "error": pa.string(),
}


def line_of(news: News) -> str | None:
    """Return the line that people read when a round is over; None for what passes by."""
    match news:
        case Ended():
            return f"{news.path}: {_round_text(news)}"
        case Failed():
            what = "upkeep failed" if news.is_upkeep else "failed"
            return f"{news.path}: {what}: {fault_text(news.fault)}"
        case Kept():
            done = _kept_text(news)
            return f"{news.path}: {done}" if done else None
        case Waits():
            return f"waits: {news.reason}; asks again at {_clock_text(news)}"
        case Began() | Stepped() | Copied():
            return None
        case other:
            assert_never(other)


def status_of(news: News) -> str | None:
    """Return what goes on at the moment; None for what is over."""
    match news:
        case Began():
            return f"{news.path}: begins"
        case Stepped():
            return f"{news.path}: {news.step.value}"
        case Copied():
            return f"{news.path}: {news.tasks_done} of {news.tasks} tasks done, {news.rows:,} rows"
        case Waits():
            return f"waits until {_clock_text(news)}: {news.reason}"
        case Ended() | Failed() | Kept():
            return None
        case other:
            assert_never(other)


def document_of(news: News) -> Document | None:
    """Return the row that programs read when a round is over; None for all else."""
    match news:
        case Ended():
            report = news.report
            return {
                "table": str(news.path),
                "status": "tiered" if report.tiered else "unchanged",
                "rows": report.row_count,
                "files": report.file_count,
                "bytes": report.byte_count,
                "snapshot": None if report.snapshot is None else report.snapshot.snapshot_id,
                "seconds": round(news.seconds, 3),
                "rows_left": report.rows_left,
                "error": None,
            }
        case Failed() if not news.is_upkeep:
            return {
                "table": str(news.path),
                "status": "failed",
                "seconds": round(news.seconds, 3),
                "error": fault_text(news.fault),
            }
        case _:
            return None


def _clock_text(news: Waits) -> str:
    return datetime.fromtimestamp(news.until_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


def fault_text(fault: Exception) -> str:
    """Return what is wrong and what to do, on one line."""
    text = " ".join(str(fault).split()) or type(fault).__name__
    hint = getattr(fault, "hint", "")
    if hint:
        return text if hint in text else f"{text.rstrip('.')}. {hint}"
    return f"{type(fault).__name__}: {text}"


def sized(count: int) -> str:
    """Return a number of bytes as people say it."""
    size, units = float(count), iter(("B", "kB", "MB", "GB"))
    for unit in units:
        if size < 1000:  # noqa: PLR2004 - what the units say
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _round_text(news: Ended) -> str:
    report = news.report
    seconds = f"{news.seconds:.1f} s"
    if not report.tiered:
        adopted = "what an earlier tierer left was reported, " if report.adopted else ""
        return f"{adopted}nothing new, {seconds}"
    snapshot = "-" if report.snapshot is None else report.snapshot.snapshot_id
    return (
        f"{counted(report.row_count, 'row')}, {counted(report.file_count, 'file')},"
        f" {sized(report.byte_count)}, snapshot {snapshot}, {seconds},"
        f" {counted(report.rows_left, 'row')} left"
    )


def counted(count: int, what: str) -> str:
    """Return a number of things as people say it."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _kept_text(news: Kept) -> str:
    done = {
        "files rewritten": news.files_rewritten,
        "snapshots dropped": news.snapshots_dropped,
        "files removed": news.files_removed,
    }
    return ", ".join(f"{count} {what}" for what, count in done.items() if count)
