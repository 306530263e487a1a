"""What a union read does, told to people and to programs: tiers, files, offsets, what is pruned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headwater.lake.split import UNKNOWN_BUCKET
from headwater.model import OffsetRange
from headwater.model.type_json import Json
from headwater.read.filters import Filter, filter_text
from headwater.read.plan import IsTouched
from headwater.read.split import Hybrid, Pruned, ReadPlan, Split, Tier
from headwater.read.token import token_text
from headwater.read.view import TableView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 1000
_UNITS = ("kB", "MB", "GB", "TB", "PB")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
GAP = "  "


def bytes_text(count: int) -> str:
    """Return a number of bytes with three digits, such as `1.25 MB`."""
    if count < _STEP:
        return f"{count} B"
    amount = float(count)
    for unit in _UNITS:
        amount /= _STEP
        # What is rounded up to a thousand is one of the next unit.
        if amount < _STEP - 0.5:
            return f"{amount:.3g} {unit}"
    return f"{amount:.0f} {_UNITS[-1]}"


def count_text(count: int, noun: str) -> str:
    """Return a number of things, such as `1,204 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def seconds_text(seconds: float) -> str:
    """Return a time that passed, in the unit that people would use."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.3g} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h" if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"


def moment_text(ms: int) -> str:
    """Return a moment in UTC."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> list[str]:
    """Return lines of cells side by side; the columns at `right` end at the same place."""
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# What a union read does, told to people and to programs: tiers, files, offsets, what is pruned.

LINES_MAX = 60
_VERSION = 1
_MS = 1000
_NUMBERS = (1, 3, 4, 5, 7)
_HEAD = ("partition", "bucket", "tiers", "files", "rows", "size", "offsets", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReading:
    """Tell what is read of one bucket."""

    partition: str | None
    bucket: int
    """The bucket, or -1 where the lake does not keep rows by bucket."""
    tiers: tuple[Tier, ...] = ()
    split_count: int = 0
    file_count: int = 0
    file_rows: int = 0
    file_bytes: int = 0
    touched_files: int | None = None
    """Files that can hold a row that was changed since; None where nobody looked."""
    log: OffsetRange | None = None
    reads_state: bool = False
    """Whether servers tell the rows, and the offsets are not read one by one."""

    @property
    def offset_count(self) -> int:
        """Return how many offsets of the log are read."""
        return 0 if self.log is None or self.reads_state else self.log.end - self.log.start


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRead:
    """Tell which lake snapshot is read."""

    format: str
    snapshot_id: int
    committed_ms: int
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Tell what a read of a view does. Its text is for people, `to_json` for programs."""

    table: str
    token: str
    schema_id: int
    columns: tuple[str, ...]
    filter: str | None
    snapshot: SnapshotRead | None
    buckets: tuple[BucketReading, ...]
    pruned: tuple[Pruned, ...]
    read_ms: int
    age_s: float
    """How long ago the position was the newest, as far as that is known."""
    is_newest: bool
    lake_lag_s: float | None
    """How far the lake alone is behind the position; None where it is not known."""
    as_of_ms: int | None = None
    """The moment that was asked for; None where the position was named in another way."""
    notes: tuple[str, ...] = field(default=())

    @property
    def file_count(self) -> int:
        """Return the files that are read."""
        return sum(each.file_count for each in self.buckets)

    @property
    def file_bytes(self) -> int:
        """Bytes of those files in all buckets."""
        return sum(each.file_bytes for each in self.buckets)

    @property
    def file_rows(self) -> int:
        """Rows of those files in all buckets, deleted ones included."""
        return sum(each.file_rows for each in self.buckets)

    @property
    def offset_count(self) -> int:
        """Return the offsets of logs that are read."""
        return sum(each.offset_count for each in self.buckets)

    def __str__(self) -> str:
        lines = [*aligned([*self._summary()]), *self._table(), *self._left_out()]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Json]:
        """Return everything as a document."""
        return {
            "version": _VERSION,
            "table": self.table,
            "token": self.token,
            "schema_id": self.schema_id,
            "columns": list(self.columns),
            "filter": self.filter,
            "snapshot": _snapshot_document(self.snapshot),
            "freshness": {
                "read_ms": self.read_ms,
                "age_s": self.age_s,
                "is_newest": self.is_newest,
                "as_of_ms": self.as_of_ms,
                "lake_lag_s": self.lake_lag_s,
            },
            "total": {
                "files": self.file_count,
                "file_rows": self.file_rows,
                "file_bytes": self.file_bytes,
                "offsets": self.offset_count,
            },
            "buckets": [_bucket_document(each) for each in self.buckets],
            "pruned": [_pruned_document(each) for each in self.pruned],
            "notes": list(self.notes),
        }

    # ---- the text

    def _summary(self) -> Iterable[tuple[str, str]]:
        yield "table", f"{self.table} (schema {self.schema_id}): {', '.join(self.columns)}"
        if self.filter is not None:
            yield "where", self.filter
        yield "fresh", self._freshness()
        if self.snapshot is not None:
            yield "lake", self._lake()
        if self.file_count:
            files, rows = count_text(self.file_count, "file"), count_text(self.file_rows, "row")
            yield "files", f"{files}, at most {bytes_text(self.file_bytes)} to read, {rows}"
        if any(each.log is not None for each in self.buckets):
            yield "logs", ", ".join(self._logs())

    def _logs(self) -> Iterable[str]:
        read = sum(each.log is not None and not each.reads_state for each in self.buckets)
        told = sum(each.reads_state for each in self.buckets)
        if read:
            yield f"{count_text(self.offset_count, 'offset')} of {count_text(read, 'log')}"
        if told:
            yield f"the rows of {count_text(told, 'bucket')} as servers tell them"

    def _freshness(self) -> str:
        moment = moment_text(self.read_ms)
        if self.as_of_ms is not None:
            return f"as of {moment_text(self.as_of_ms)}, as asked"
        if self.is_newest:
            return f"as of {moment}, {seconds_text(self.age_s)} ago"
        return f"at the position that was asked for, looked up at {moment}"

    def _lake(self) -> str:
        assert self.snapshot is not None
        held = self.snapshot
        text = f"{held.format} snapshot {held.snapshot_id}, {seconds_text(held.age_s)} old"
        if self.lake_lag_s is None:
            return text
        if self.lake_lag_s == 0:
            return f"{text}; it holds everything"
        return f"{text}; alone it is {seconds_text(self.lake_lag_s)} behind"

    def _table(self) -> list[str]:
        if not self.buckets:
            return ["", "nothing is read"]
        rows = [_cells(each) for each in self.buckets[:LINES_MAX]]
        used = [at for at in range(len(_HEAD)) if any(row[at] for row in rows)]
        cells = [[row[at] for at in used] for row in (_HEAD, *rows)]
        right = [place for place, at in enumerate(used) if at in _NUMBERS]
        lines = ["", *aligned(cells, right=right)]
        hidden = len(self.buckets) - LINES_MAX
        return [*lines, f"… and {hidden:,} more"] if hidden > 0 else lines

    def _left_out(self) -> list[str]:
        if not self.pruned:
            return []
        cells = [
            (
                f"  {each.what}",
                count_text(each.row_count, "row"),
                bytes_text(each.byte_count),
                each.why,
            )
            for each in self.pruned[:LINES_MAX]
        ]
        lines = ["", "left out", *aligned(cells, right=(1, 2))]
        hidden = len(self.pruned) - LINES_MAX
        return [*lines, f"  … and {hidden:,} more"] if hidden > 0 else lines


def explained(  # noqa: PLR0913 - what is told is what is given
    view: TableView,
    plan: ReadPlan,
    *,
    columns: Sequence[str],
    lag_s: float | None,
    now_ms: int,
    filter: Filter | None = None,  # noqa: A002 - the word of plans
    is_touched: IsTouched | None = None,
) -> Explanation:
    """Tell what a plan reads of a view."""
    held = view.snapshot
    return Explanation(
        table=str(view.table.path),
        token=token_text(view),
        schema_id=view.table.schema_id,
        columns=tuple(columns),
        filter=None if filter is None else filter_text(filter),
        snapshot=None
        if held is None
        else SnapshotRead(
            format=held.format,
            snapshot_id=held.snapshot_id,
            committed_ms=held.committed_ms,
            age_s=_since(held.committed_ms, now_ms),
        ),
        buckets=tuple(_buckets(plan.splits, is_touched)),
        pruned=plan.pruned,
        read_ms=view.read_ms,
        age_s=_since(view.read_ms, now_ms),
        is_newest=view.is_newest,
        lake_lag_s=None if held is None else lag_s,
        as_of_ms=view.as_of_ms,
        notes=view.notes,
    )


def _since(ms: int, now_ms: int) -> float:
    return max(now_ms - ms, 0) / _MS


def _buckets(splits: Iterable[Split], is_touched: IsTouched | None) -> list[BucketReading]:
    found: dict[tuple[str | None, int], BucketReading] = {}
    for split in splits:
        place = (split.partition, split.bucket)
        before = found.get(place, BucketReading(partition=split.partition, bucket=split.bucket))
        found[place] = _with(before, split, is_touched)
    return list(found.values())


def _with(before: BucketReading, split: Split, is_touched: IsTouched | None) -> BucketReading:
    files = () if split.lake is None else split.lake.files
    touched = before.touched_files
    if isinstance(split, Hybrid) and is_touched is not None:
        touched = (touched or 0) + sum(is_touched(split, file) for file in files)
    return replace(
        before,
        tiers=tuple(dict.fromkeys((*before.tiers, split.tier))),
        split_count=before.split_count + 1,
        file_count=before.file_count + len(files),
        file_rows=before.file_rows + sum(file.row_count for file in files),
        file_bytes=before.file_bytes + sum(file.byte_count for file in files),
        touched_files=touched,
        log=_joined(before.log, split.log),
        reads_state=before.reads_state or split.reads_state,
    )


def _joined(before: OffsetRange | None, after: OffsetRange | None) -> OffsetRange | None:
    if before is None or after is None:
        return before or after
    return OffsetRange(min(before.start, after.start), max(before.end, after.end))


def _cells(each: BucketReading) -> tuple[str, ...]:
    files = str(each.file_count) if each.file_count else ""
    if each.touched_files is not None:
        files = f"{each.touched_files} changed of {each.file_count}"
    log = each.log
    return (
        each.partition or "",
        "any" if each.bucket == UNKNOWN_BUCKET else str(each.bucket),
        " + ".join(each.tiers),
        files,
        f"{each.file_rows:,}" if each.file_count else "",
        bytes_text(each.file_bytes) if each.file_count else "",
        ""
        if log is None
        else f"state at {log.end}"
        if each.reads_state
        else f"{log.start} to {log.end}",
        "" if log is None or each.reads_state else f"{each.offset_count:,}",
    )


def _snapshot_document(snapshot: SnapshotRead | None) -> Json:
    if snapshot is None:
        return None
    return {
        "format": snapshot.format,
        "snapshot_id": snapshot.snapshot_id,
        "committed_ms": snapshot.committed_ms,
        "age_s": snapshot.age_s,
    }


def _bucket_document(each: BucketReading) -> Json:
    return {
        "partition": each.partition,
        "bucket": each.bucket,
        "tiers": [str(tier) for tier in each.tiers],
        "splits": each.split_count,
        "files": each.file_count,
        "file_rows": each.file_rows,
        "file_bytes": each.file_bytes,
        "touched_files": each.touched_files,
        "log": None if each.log is None else {"start": each.log.start, "end": each.log.end},
        "offsets": each.offset_count,
        "reads_state": each.reads_state,
    }


def _pruned_document(each: Pruned) -> Json:
    return {
        "what": each.what,
        "why": each.why,
        "rows": each.row_count,
        "bytes": each.byte_count,
    }
