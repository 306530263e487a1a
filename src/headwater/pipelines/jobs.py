"""Jobs: streaming inserts under a name, with checkpoints that are found again by that name.

A job has a folder below `state.checkpoints.dir`: `job.json` says what it runs, and each run of it
(a new one begins with a restart) has a folder with a checkpoint for each of its sinks. A job goes
on only with the statement that it began with: with another, what its checkpoints remember would
mean something else.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.fs as pafs
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import ConflictError, JobChangedError, JobFailedError, MissingError
from headwater.pipelines.sql.faults import meant
from headwater.pipelines.sql.names import DeclaredTable
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.steps import (
    FirstRows,
    LookupJoin,
    Plan,
    ReadTable,
    SqlView,
    VersionJoin,
)

NAME_CHARACTERS_MAX = 120
_SAFE = re.compile(r"[^\w.+-]+")
_SPACES = re.compile(
    r"""(?P<kept>'(?:[^']|'')*'|`(?:[^`]|``)*`|/\*\+.*?\*/)|(?:--[^\n]*|/\*(?!\+).*?\*/|\s)+""",
    re.DOTALL,
)
_RECORD, _LOCK, _OFFSETS = "job.json", "lock", "offsets"
# How a server is reached may change without changing what a job does.
_REACH = ("bootstrap.servers", "client.", "password", "username", "lake.options")


def job_name(sinks: Sequence[DeclaredTable], given: str | None) -> str:
    """The name of a job: the one that was set, or one made from its sinks."""
    if given is not None:
        return given
    name = "insert-into_" + "+".join(str(each.name) for each in sinks)
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return f"{name[: NAME_CHARACTERS_MAX - 9]}-{_digest(name)[:8]}"


def fingerprint(source: SourceText, plan: Plan, zone: str | None) -> str:
    """What identifies the work of a job: its text, and what it reads as it is declared now.

    Comments and spaces do not matter, nor does how a server is reached.
    """
    parts: list[object] = [normal(source.text), zone]
    for view in plan.views:
        match view:
            case ReadTable():
                computed = [list(each) for each in view.computed]
                delay = None if view.watermark is None else asdict(view.watermark)
                parts.append([_table(view.table), list(view.columns), computed, delay])
            case LookupJoin() | VersionJoin():
                parts.append([_table(view.table), dict(view.columns)])
            case SqlView() | FirstRows():
                pass  # follows from the text
    return _digest(json.dumps(parts, sort_keys=True, default=str))


def _table(table: DeclaredTable) -> list[object]:
    kept = {k: v for k, v in table.options.items() if not k.startswith(_REACH)}
    return [str(table.name), table.connector, kept]


def normal(text: str) -> str:
    """A statement without comments, and with single spaces."""
    return _SPACES.sub(lambda match: match["kept"] or " ", text).strip()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


# What is kept of a job.


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What is kept of a job from run to run."""

    name: str
    run: int
    fingerprint: str
    statement: str


@dataclass(slots=True)
class JobFolder:
    """The folder of a job, held by this process while the job runs."""

    record: JobRecord
    path: str
    _files: pafs.FileSystem
    _root: str
    _lock: int | None = None

    def checkpoint(self, sink: int) -> str:
        """Where the checkpoint of a sink is."""
        return f"{self.path}/run-{self.record.run}/sink-{sink}"

    def is_new(self, sink: int) -> bool:
        """Tell whether a sink has not written anything in this run."""
        offsets = f"{self._root}/run-{self.record.run}/sink-{sink}/{_OFFSETS}"
        return self._files.get_file_info(offsets).type is pafs.FileType.NotFound

    def release(self) -> None:
        """Let other processes run the job."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class JobStore:
    """The folders of all jobs below one directory."""

    def __init__(self, directory: str) -> None:
        self._files, self._root = _files_of(directory)
        self._path = directory if urlparse(directory).scheme else self._root

    def open(self, name: str, mark: str, statement: str, *, restart: bool) -> JobFolder:
        """Begin a job or go on with it; raises if it is another statement, or runs elsewhere."""
        place = _SAFE.sub("_", name)
        place = place if place == name else f"{place}-{_digest(name)[:8]}"
        root, path = f"{self._root}/{place}", f"{self._path}/{place}"
        self._files.create_dir(root)
        lock = self._locked(name, root)
        folder = JobFolder(
            JobRecord(name=name, run=1, fingerprint=mark, statement=statement),
            path,
            self._files,
            root,
            lock,
        )
        try:
            held = self._read(root)
            if held is not None and not restart and not self._has_begun(root, held):
                held = replace(held, fingerprint=mark)  # what never began has nothing to lose
            folder.record = self._agreed(folder.record, held, restart=restart)
            self._write(root, folder.record)
        except BaseException:
            folder.release()
            raise
        return folder

    def _has_begun(self, root: str, held: JobRecord) -> bool:
        selector = pafs.FileSelector(f"{root}/run-{held.run}", allow_not_found=True)
        sinks = [f"{each.path}/{_OFFSETS}" for each in self._files.get_file_info(selector)]
        found = self._files.get_file_info(sinks)
        return any(each.type is not pafs.FileType.NotFound for each in found)

    def _agreed(self, new: JobRecord, held: JobRecord | None, *, restart: bool) -> JobRecord:
        if held is None:
            return new
        if restart:
            return replace(new, run=held.run + 1)
        if held.fingerprint != new.fingerprint:
            raise JobChangedError(
                f"The job '{new.name}' began with another statement, or its tables were declared "
                f"differently. It was: {_shortened(held.statement)}",
                hint="Give the new one a name of its own with SET 'pipeline.name' = '…', or begin "
                "anew with --restart, which reads and writes everything again.",
            )
        return replace(new, run=held.run)

    def records(self) -> list[JobRecord]:
        """All jobs that were ever run here."""
        selector = pafs.FileSelector(self._root, allow_not_found=True)
        folders = [each.path for each in self._files.get_file_info(selector) if not each.is_file]
        found = [self._read(folder) for folder in folders]
        return sorted((each for each in found if each is not None), key=lambda each: each.name)

    def _read(self, root: str) -> JobRecord | None:
        path = f"{root}/{_RECORD}"
        if not self._files.get_file_info(path).is_file:
            return None
        with self._files.open_input_stream(path) as source:
            return JobRecord(**json.loads(source.read()))

    def _write(self, root: str, record: JobRecord) -> None:
        if self._read(root) == record:
            return
        path = f"{root}/{_RECORD}"
        with self._files.open_output_stream(f"{path}.new") as target:
            target.write(json.dumps(asdict(record), indent=2).encode())
        self._files.move(f"{path}.new", path)

    def _locked(self, name: str, root: str) -> int | None:
        """Hold the folder against other processes, where the file system can do that."""
        if not isinstance(self._files, pafs.LocalFileSystem):
            return None
        descriptor = os.open(f"{root}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise ConflictError(
                f"The job '{name}' is running already.",
                hint="Stop it first, or give this one a name of its own with SET 'pipeline.name' "
                "= '…'.",
            ) from None
        return descriptor


def _files_of(directory: str) -> tuple[pafs.FileSystem, str]:
    url = urlparse(directory)
    if url.scheme in ("", "file"):
        path = Path(unquote(url.path) if url.scheme else directory).expanduser().absolute()
        return pafs.LocalFileSystem(), str(path)
    return pafs.FileSystem.from_uri(re.sub(r"\As3[an]:", "s3:", directory))


def _shortened(text: str) -> str:
    flat = normal(text)
    return flat if len(flat) <= NAME_CHARACTERS_MAX else f"{flat[:NAME_CHARACTERS_MAX]}…"


# Jobs that run.


class JobStatus(StrEnum):
    """How a job is."""

    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is, after its last micro-batches."""

    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    behind: int | None = None
    """Rows that its sources have and it has not read, where they tell."""
    late: int = 0
    """Rows of the last micro-batches that came after the watermark and were dropped."""
    batch_ms: int = 0


@dataclass(slots=True)
class PipelineJob:
    """A job of this process: queries that start and end together."""

    name: str
    statement: str
    queries: tuple[StreamingQuery, ...]
    started_ms: int
    folder: JobFolder | None = None
    _is_stopped: bool = False

    @property
    def status(self) -> JobStatus:
        """How the job is."""
        if self.fault() is not None:
            return JobStatus.FAILED
        if any(query.isActive for query in self.queries):
            return JobStatus.RUNNING
        return JobStatus.STOPPED if self._is_stopped else JobStatus.FINISHED

    def fault(self) -> JobFailedError | None:
        """Why it failed, if it did; what a query complains of while it is stopped is no failure."""
        if self._is_stopped:
            return None
        faults = [query.exception() for query in self.queries]
        first = next((each for each in faults if each is not None), None)
        if first is None:
            return None
        return JobFailedError(f"The job '{self.name}' failed: {cause_of(str(first))}")

    def stop(self) -> None:
        """Stop all its queries; what they have written stays, and the next run goes on there."""
        if self.fault() is None:
            self._is_stopped = self._is_stopped or any(query.isActive for query in self.queries)
        for query in self.queries:
            query.stop()
        if self.folder is not None:
            self.folder.release()

    def settle(self) -> JobStatus:
        """End the rest of a job of which a query has failed, and free what has ended."""
        status = self.status
        if status is JobStatus.FAILED:
            self.stop()
        elif status is not JobStatus.RUNNING and self.folder is not None:
            self.folder.release()
        return status

    def wait(self, seconds: float | None = None) -> JobStatus:
        """Wait until it has ended, or for some time; raises if it failed."""
        for query in self.queries:
            if seconds is None:
                _quietly(query)
            else:
                _quietly(query, seconds)
        status = self.settle()
        if (fault := self.fault()) is not None:
            raise fault
        return status

    def progress(self) -> JobProgress:
        """How far it is: sums over its queries, the oldest micro-batch, the longest lag."""
        last = [progress for query in self.queries if (progress := _last(query)) is not None]
        if not last:
            return JobProgress()
        behind = [each.behind for each in last if each.behind is not None]
        return JobProgress(
            batch=min(each.batch for each in last),
            rows=sum(each.rows for each in last),
            rows_per_second=sum(each.rows_per_second for each in last),
            behind=sum(behind) if behind else None,
            late=sum(each.late for each in last),
            batch_ms=max(each.batch_ms for each in last),
        )


def _quietly(query: StreamingQuery, seconds: float | None = None) -> None:
    with suppress(StreamingQueryException):  # which `exception` tells too
        query.awaitTermination(seconds)  # type: ignore[arg-type] # it takes parts of a second


def _last(query: StreamingQuery) -> JobProgress | None:
    found = query.lastProgress
    if found is None:
        return None
    told = json.loads(found.json) if hasattr(found, "json") else dict(found)
    sources = told.get("sources", [])
    behind = [_behind(each.get("latestOffset")) for each in sources]
    known = [each for each in behind if each is not None]
    return JobProgress(
        batch=told["batchId"],
        rows=told.get("numInputRows", 0),
        rows_per_second=told.get("processedRowsPerSecond") or 0.0,
        behind=sum(known) if known else None,
        late=sum(each.get("numRowsDroppedByWatermark", 0) for each in told["stateOperators"]),
        batch_ms=told.get("durationMs", {}).get("triggerExecution", 0),
    )


def _behind(latest: object) -> int | None:
    """Rows that a source says are left, in its newest offset."""
    if isinstance(latest, str):
        try:
            latest = json.loads(latest)
        except ValueError:
            return None
    found = latest.get("rows_behind") if isinstance(latest, Mapping) else None
    return found if isinstance(found, int) else None


_OURS = re.compile(r"headwater\.errors\.\w+\.(\w+Error): (.+)")
# What Py4J says before the words of an error of Java, and what Spark adds to them.
_PY4J, _CALLED = "An error occurred while calling", "\n: "
_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+\w+(?:Exception|Error): ")
_STATE = re.compile(r" *SQLSTATE: \w+(?:; line \d+ pos \d+)?;?\Z")
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


def cause_of(text: str) -> str:
    """The line of a long message of Spark that says what went wrong."""
    for pattern in (_OURS, _PYTHON):
        if found := pattern.findall(text):
            return str(found[-1][1]).strip()
    said = text.partition(_CALLED)[2] if text.startswith(_PY4J) else text
    first = _CLASS.sub("", said.strip().split("\n", 1)[0])
    return _STATE.sub("", first)


class RunningJobs:
    """The jobs of this process, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, PipelineJob] = {}

    def __iter__(self) -> Iterator[PipelineJob]:
        return iter(self._jobs.values())

    def add(self, job: PipelineJob) -> None:
        """Keep a job; a later one with the same name takes its place."""
        self._jobs[job.name] = job

    def find(self, name: str) -> PipelineJob:
        """A job by its name."""
        if name not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise MissingError(
                f"There is no job '{name}' in this process.",
                hint=f"{meant(name, self._jobs)} The jobs are: {known}.".strip(),
            )
        return self._jobs[name]

    def running(self) -> list[PipelineJob]:
        """The jobs that have not ended; of one that failed, the rest is ended."""
        return [each for each in self._jobs.values() if each.settle() is JobStatus.RUNNING]

    def stop(self) -> None:
        """Stop all jobs."""
        for job in self._jobs.values():
            job.stop()

    def check(self) -> None:
        """Raise the error of the first job that failed."""
        for job in self._jobs.values():
            if (fault := job.fault()) is not None:
                raise fault
