"""Start the jobs of a session: name, checkpoint, queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import ConflictError
from headwater.pipelines.jobs import (
    JobFolder,
    JobStore,
    PipelineJob,
    RunningJobs,
    fingerprint,
    job_name,
    normal,
)
from headwater.pipelines.results import Started
from headwater.pipelines.settings import SessionSettings
from headwater.pipelines.sql.settings import (
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_INTERVAL,
    PIPELINE_NAME,
    TIME_ZONE,
)
from headwater.pipelines.sql.statements import SourceText
from headwater.pipelines.sql.steps import InsertRows, Plan
from headwater.pipelines.views import Frames
from headwater.pipelines.writes import Pace, pace_of, start_queries
from headwater.runtime.clock import Clock

Queries = tuple[StreamingQuery, ...]


@dataclass(slots=True)
class JobNames:
    """The names of the jobs of one script: jobs with the same sinks are told apart by order."""

    restart: bool = False
    """Begin each job anew, in place of going on."""
    _marks: dict[str, list[str]] = field(default_factory=dict)

    def of(self, name: str, mark: str) -> str:
        """The name of a job, with a number if it is not the first of that name."""
        marks = self._marks.setdefault(name, [])
        if mark not in marks:
            marks.append(mark)
        place = marks.index(mark) + 1
        return name if place == 1 else f"{name}#{place}"


@dataclass(slots=True)
class Launcher:
    """Starts jobs, and keeps them."""

    settings: SessionSettings
    clock: Clock
    jobs: RunningJobs = field(default_factory=RunningJobs)
    once: bool = False
    """Jobs end when they have read what there is now."""

    @property
    def store(self) -> JobStore:
        """Where jobs keep how far they are."""
        return JobStore(CHECKPOINT_DIRECTORY.required(self.settings.values))

    def start(
        self,
        plan: Plan,
        writes: Sequence[InsertRows],
        frames: Frames,
        *,
        source: SourceText,
        names: JobNames,
    ) -> Started:
        """Start a job, or go on with it where it was."""
        values = self.settings.values
        mark = fingerprint(source, plan, values.get(TIME_ZONE.name))
        given = job_name([each.table for each in writes], PIPELINE_NAME.of(values))
        pace = self.pace(plan)

        def begin(folder: JobFolder) -> Queries:
            return start_queries(frames, writes, folder=folder, pace=pace)

        return self.begin(names.of(given, mark), mark, source, begin=begin, restart=names.restart)

    def pace(self, plan: Plan) -> Pace:
        """How fast a job of this plan goes."""
        interval_ms = CHECKPOINT_INTERVAL.of(self.settings.values)
        return pace_of(plan, interval_ms=interval_ms, once=self.once)

    def begin(
        self,
        name: str,
        mark: str,
        source: SourceText,
        *,
        begin: Callable[[JobFolder], Queries],
        restart: bool,
    ) -> Started:
        """Take the folder of a job and start its queries; keep the job."""
        self._check_free(name)
        text = normal(source.text)
        folder = self.store.open(name, mark, text, restart=restart)
        is_new = folder.is_new(0)
        try:
            queries = begin(folder)
        except BaseException:
            folder.release()
            raise
        job = PipelineJob(name, text, queries, self.clock.now_ms(), folder)
        self.jobs.add(job)
        return Started(job, is_new)

    def _check_free(self, name: str) -> None:
        if any(job.name == name for job in self.jobs.running()):
            raise ConflictError(
                f"The job '{name}' is running already.",
                hint="STOP JOB it first, or give this one a name of its own with "
                "SET 'pipeline.name' = '…'.",
            )
