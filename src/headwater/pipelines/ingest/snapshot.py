"""Ranges of tables, read and written by Spark tasks."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from headwater.client.sync.table import Table
from headwater.errors import HeadwaterError, RetryLaterError
from headwater.pipelines.ingest.form import PipelineForm, SourceTable
from headwater.pipelines.ingest.postgres.changes import DELETED, TableShape, converted
from headwater.pipelines.ingest.postgres.column_types import BadValue
from headwater.pipelines.ingest.postgres.ranges import KeyRange, reading_range
from headwater.pipelines.ingest.sink import IngestSink, connection_of

ANSWERS = "task int, answer string"


@dataclass(frozen=True, slots=True)
class RangeTask:
    """A range to read; travels to a Spark task."""

    table: SourceTable
    shape: TableShape
    wanted: KeyRange
    must_see: tuple[int, ...] = ()
    replaces: bool = False
    """Whether rows of the range that are gone have to be deleted: it was taken before."""


@dataclass(frozen=True, slots=True)
class RangeResult:
    """A range that was written."""

    table: SourceTable
    number: int
    visibility: str
    rows: int


class RangeFailedError(RetryLaterError):
    """A task could not read or write a range."""

    hint = "It is tried again with the next run."


RangeReader = Callable[[PipelineForm, Sequence[RangeTask]], list[RangeResult]]
"""Reads and writes ranges."""


def ranges_here(form: PipelineForm, tasks: Sequence[RangeTask]) -> list[RangeResult]:
    """Read and write ranges in this process, one after the other."""
    return [_result(each, take_range(form, each)) for each in tasks]


def ranges_on_spark(spark: SparkSession) -> RangeReader:
    """Read and write each range in a Spark task."""
    return lambda form, tasks: _on_spark(spark, form, tasks)


def _on_spark(
    spark: SparkSession, form: PipelineForm, tasks: Sequence[RangeTask]
) -> list[RangeResult]:
    errand = RangeErrand(form, tuple(tasks))
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    answers = numbers.mapInArrow(errand.run, ANSWERS).toArrow().to_pylist()
    return [_result(tasks[each["task"]], json.loads(each["answer"])) for each in answers]


def _result(task: RangeTask, answer: dict[str, object]) -> RangeResult:
    if "fault" in answer:
        raise RangeFailedError(f"A range of {task.table} was not taken: {answer['fault']}")
    return RangeResult(
        task.table, task.wanted.number, str(answer["visibility"]), int(str(answer["rows"]))
    )


@dataclass(frozen=True, slots=True)
class RangeErrand:
    """What a Spark task runs: the range with its number."""

    form: PipelineForm
    tasks: tuple[RangeTask, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks with these numbers, and answer for each."""
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            answers = [json.dumps(self._answer(self.tasks[number])) for number in numbers]
            columns = [pa.array(numbers, pa.int32()), pa.array(answers, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, names=["task", "answer"])

    def _answer(self, task: RangeTask) -> dict[str, object]:
        try:
            return take_range(self.form, task)
        except HeadwaterError as fault:
            return {"fault": str(fault)}


def take_range(form: PipelineForm, task: RangeTask) -> dict[str, object]:
    """Read a range and write it; the upserts of an attempt that died are written over."""
    sink = IngestSink(form, connection_of(form.sink).client())
    table = sink.table(task.table)
    with reading_range(
        form.source, task.table, task.shape, task.wanted, must_see=task.must_see
    ) as read:
        bad: list[BadValue] = []
        count = len(next(iter(read.columns.values())))
        made = converted(read.columns, task.shape, deletes=[False] * count, bad=bad)
        letters = sink.letters(task.table, made, f"range {task.wanted.number}")
        if letters:
            sink.ensure_letters().append(letters)
        rows = pa.Table.from_batches([made.columns]).drop_columns([DELETED])
        for field in table.schema:
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        if task.replaces:
            _delete_others(table, rows, task.wanted)
        if rows.num_rows:
            table.upsert(rows.select(table.schema.names))
    return {"visibility": read.visibility, "rows": rows.num_rows}


def _delete_others(table: Table, rows: pa.Table, wanted: KeyRange) -> None:
    """Delete the rows of a range that are not among these."""
    key = list(table.info.schema.primary_key)
    limits = ((">=", wanted.low), ("<", wanted.high))
    where = [(key[0], sign, limit) for sign, limit in limits if limit is not None]
    held = table.scan(columns=key, where=where or None).to_arrow()
    gone = held.join(rows.select(key), keys=key, join_type="left anti")
    if gone.num_rows:
        table.delete(gone.select(key))
