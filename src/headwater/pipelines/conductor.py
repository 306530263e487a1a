"""Runs statements in a session: plan each one, make its views, do what it says.

One conductor belongs to one Spark session. For each statement it

1. asks the planner for views and an action;
2. makes the views on Spark;
3. does the action: defines something, lists something, writes in a batch, or starts a job;
4. forgets the views.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import count

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.cluster.schema_in import columns_of_struct
from headwater.engines.spark.session import make_current
from headwater.engines.spark.source import register
from headwater.errors import JobFailedError, StatementError
from headwater.pipelines.definitions import create_table, define, is_there
from headwater.pipelines.jobs import PipelineJob, cause_of, job_name
from headwater.pipelines.launch import JobNames, Launcher
from headwater.pipelines.materialized import MaterializedTables
from headwater.pipelines.results import (
    Cleared,
    FollowedRows,
    Left,
    Listed,
    Outcome,
    SelectedRows,
    Told,
    listed,
)
from headwater.pipelines.settings import SessionSettings
from headwater.pipelines.show import SessionLists
from headwater.pipelines.sql.faults import fault
from headwater.pipelines.sql.names import Names
from headwater.pipelines.sql.settings import DML_SYNC
from headwater.pipelines.sql.statements import (
    AlterMaterializedTable,
    ClearStatement,
    DescribeStatement,
    DropMaterializedTable,
    HelpStatement,
    PhysicalColumn,
    QuitStatement,
    ShowStatement,
    SourceText,
    Statement,
    StopJob,
    TableColumn,
)
from headwater.pipelines.sql.steps import (
    CHANGE_COLUMN,
    CreateTableAs,
    DeleteRows,
    ExplainPlan,
    InsertRows,
    InsertRowsSet,
    Materialize,
    PlainAction,
    Plan,
    ShowRows,
)
from headwater.pipelines.state import SessionState
from headwater.pipelines.views import Frames, drop_views, make_views
from headwater.pipelines.writes import delete_now, write_now
from headwater.runtime.clock import Clock, SystemClock

Planner = Callable[[Statement, Names, str], Plan]
"""Plans a statement, with the names of a session and a label for its views."""
POLL_S = 0.5
_NAMED = re.compile(r"`[^`]+`(?:\.`[^`]+`)*")
HELP = """\
End a statement with a semicolon.

  CREATE CATALOG c WITH ('type' = 'fluss', 'bootstrap.servers' = 'localhost:9123');
  USE CATALOG c; SHOW TABLES; DESCRIBE t;
  SELECT * FROM t;                 as a stream; Ctrl-C ends it
  INSERT INTO t SELECT …;          a job that goes on; SHOW JOBS, STOP JOB 'name'
  SET 'execution.runtime-mode' = 'batch';
"""


class Conductor:
    """Runs statements on a Spark session, and keeps what they define."""

    def __init__(
        self, spark: SparkSession, planner: Planner, *, clock: Clock | None = None
    ) -> None:
        register(spark)
        self.spark = spark
        self.settings = SessionSettings(spark)
        self.state = SessionState(spark, self.settings)
        self.launcher = Launcher(self.settings, clock or SystemClock())
        self._planner = planner
        self._lists = SessionLists(spark, self.state)
        self._materialized = MaterializedTables(
            spark, self.state, self.launcher, columns_of=columns_of
        )
        self._told: set[str] = set()
        self._labels = (f"__headwater_{number}" for number in count(1))

    # ---- statements

    def run(
        self, statements: Sequence[Statement], *, names: JobNames | None = None
    ) -> Iterator[Outcome]:
        """Run statements one after the other, and yield what each gives."""
        known = names or JobNames()
        for statement in statements:
            make_current(self.spark)
            plan = self._planned(statement)
            for note in plan.notes:
                if note not in self._told:
                    self._told.add(note)
                    yield Told(note)
            yield self._done(plan, statement.source, known)

    def _planned(self, statement: Statement) -> Plan:
        return self._planner(statement, self.state, next(self._labels))

    def _done(self, plan: Plan, source: SourceText, names: JobNames) -> Outcome:
        action = plan.action
        try:
            if isinstance(action, ExplainPlan):
                return self._explained(action)
            frames = make_views(self.spark, plan.views)
            try:
                return self._acted(plan, frames, source, names)
            finally:
                drop_views(self.spark, plan.views)
        except (AnalysisException, ParseException) as error:
            raise _refused(source, cause_of(str(error))) from error
        except (PySparkException, Py4JJavaError) as error:
            said = f"The statement of line {source.line} failed: {cause_of(str(error))}"
            raise JobFailedError(said) from error

    def _acted(self, plan: Plan, frames: Frames, source: SourceText, names: JobNames) -> Outcome:
        match plan.action:
            case ShowRows() as action:
                return self._shown(plan, action, frames)
            case InsertRows() as action:
                return self._written(plan, (action,), frames, source, names)
            case InsertRowsSet(writes=writes):
                return self._written(plan, writes, frames, source, names)
            case DeleteRows() as action:
                delete_now(frames[action.view], action)
                return Told(f"Deleted rows of {action.table.name}.")
            case CreateTableAs() as action:
                return self._created_as(plan, action, frames, source, names)
            case Materialize() as action:
                return self._materialized.create(plan, action, frames, source, names)
            case ExplainPlan():
                raise AssertionError("explained before")
            case action:
                return self._plain(action)

    def _plain(self, action: PlainAction) -> Outcome:
        jobs = self.launcher.jobs
        match action:
            case ShowStatement():
                return self._lists.show(action, jobs, self.launcher.store)
            case DescribeStatement():
                return self._lists.describe(action, jobs)
            case StopJob(job=name, is_drain=is_drain):
                return _stopped(jobs.find(name), is_drain=is_drain)
            case AlterMaterializedTable():
                return self._materialized.alter(action)
            case DropMaterializedTable():
                return self._materialized.drop(action)
            case QuitStatement():
                return Left()
            case HelpStatement() | ClearStatement():
                return Told(HELP) if isinstance(action, HelpStatement) else Cleared()
            case _:
                return define(self.state, action)

    # ---- queries

    def _shown(self, plan: Plan, action: ShowRows, frames: Frames) -> Outcome:
        rows = frames[action.view]
        if rows.isStreaming:
            return FollowedRows(rows, action, self.launcher.pace(plan).ends)
        return SelectedRows(rows)

    def _explained(self, action: ExplainPlan) -> Listed:
        frames = make_views(self.spark, action.plan.views)
        try:
            steps = [f"{type(each).__name__} {each.view}" for each in action.plan.views]
            steps.append(type(action.plan.action).__name__)
            parts = ["== Steps ==", *steps, *action.plan.notes]
            for view in _taken(action.plan):
                parts += [f"== Spark's plan of {view} ==", _spark_plan(frames[view], action)]
            return listed(result=["\n".join(parts)])
        finally:
            drop_views(self.spark, action.plan.views)

    # ---- writes

    def _written(
        self,
        plan: Plan,
        writes: Sequence[InsertRows],
        frames: Frames,
        source: SourceText,
        names: JobNames,
    ) -> Outcome:
        """Write what is a batch, then start what is a stream as one job."""
        streams = [write for write in writes if frames[write.view].isStreaming]
        for write in writes:
            if write not in streams:
                write_now(frames[write.view], write)
        if not streams:
            tables = ", ".join(str(write.table.name) for write in writes)
            return Told(f"Wrote rows into {tables}.")
        started = self.launcher.start(plan, streams, frames, source=source, names=names)
        if DML_SYNC.required(self.settings.values):
            started.job.wait()
        return started

    def _created_as(
        self,
        plan: Plan,
        action: CreateTableAs,
        frames: Frames,
        source: SourceText,
        names: JobNames,
    ) -> Outcome:
        """Create a table like a view, then write the view's rows into it."""
        statement, rows = action.statement, frames[action.view]
        name = self.state.full(statement.name)
        if is_there(self.state, name, is_temporary=statement.is_temporary):
            jobs = {record.name for record in self.launcher.store.records()}
            table = self.state.table(name) if statement.if_not_exists else None
            if table is None or not rows.isStreaming or job_name([table], None) not in jobs:
                return Told(create_table(self.state, statement, statement.definition))
        else:
            own = {each.name for each in statement.definition.columns}
            added = tuple(each for each in columns_of(rows) if each.name not in own)
            columns = (*statement.definition.columns, *added)
            create_table(self.state, statement, replace(statement.definition, columns=columns))
        table = self.state.table(name)
        write = InsertRows(
            view=action.view,
            table=table,
            columns=tuple(name for name in rows.columns if name != CHANGE_COLUMN),
            is_streaming=action.is_streaming,
            mode=action.mode,
            key=table.key,
            has_changes=action.has_changes,
        )
        return self._written(plan, (write,), frames, source, names)

    # ---- jobs

    def wait(self, tell: Callable[[Sequence[PipelineJob]], None] | None = None) -> None:
        """Wait until all jobs have ended; raises as soon as one fails."""
        jobs = self.launcher.jobs
        while running := jobs.running():
            running[0].wait(POLL_S)
            jobs.check()
            if tell is not None:
                tell(running)
        jobs.check()

    def stop(self) -> None:
        """Stop all jobs; each goes on where it was when its statement is run again."""
        self.launcher.jobs.stop()


def _refused(source: SourceText, cause: str) -> StatementError:
    """Make an error of Spark's analyzer ours, with the caret at the name that it cannot find."""
    named = _NAMED.search(cause)
    name = re.escape(named[0].split(".")[-1].strip("`")) if named else ""
    found = re.search(rf"(?<!\w){name}(?!\w)", source.text, re.IGNORECASE) if name else None
    at = found.start() if found else 0
    return fault(source, f"Spark cannot run this: {cause}", at=at)


def columns_of(rows: DataFrame) -> tuple[TableColumn, ...]:
    """The columns of a table that takes these rows."""
    struct = json.loads(rows.schema.json())
    return tuple(
        PhysicalColumn(name=each.name, type=replace(each.type, nullable=True), comment=each.comment)
        for each in columns_of_struct(struct)
        if each.name != CHANGE_COLUMN
    )


def _stopped(job: PipelineJob, *, is_drain: bool) -> Told:
    if is_drain:
        for query in job.queries:
            query.processAllAvailable()
    job.stop()
    return Told(f"Stopped job {job.name}.")


def _taken(plan: Plan) -> list[str]:
    """The views that an action takes its rows from."""
    match plan.action:
        case InsertRowsSet(writes=writes):
            return [write.view for write in writes]
        case InsertRows() | ShowRows() | DeleteRows() | CreateTableAs() | Materialize():
            return [plan.action.view]
        case _:
            return []


def _spark_plan(rows: DataFrame, action: ExplainPlan) -> str:
    if rows.isStreaming:
        # Spark plans a stream when it starts; until then there is what it understood.
        plan = getattr(rows, "_jdf", None)
        return "" if plan is None else str(plan.queryExecution().analyzed())
    text = io.StringIO()
    with redirect_stdout(text):
        rows.explain(mode="cost" if "ESTIMATED_COST" in action.details else "simple")
    return text.getvalue()
