"""The connector `datagen`: rows made up at a steady pace, the same in every attempt."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headwater.config.values import (
    BOOLEAN,
    DURATION,
    INT_MAX,
    LONG_MAX,
    Kind,
    Option,
    choice,
    whole_number,
)
from headwater.engines.spark.types import ZONE
from headwater.errors import InvalidOptionError
from headwater.pipelines.connectors.datagen_values import (
    FieldKind,
    FieldRule,
    Numbers,
    RowTimes,
    column,
)
from headwater.pipelines.connectors.spi import (
    FIELD,
    Connector,
    ConnectorTable,
    needed_fields,
)
from headwater.runtime.clock import Clock, SystemClock

T = TypeVar("T")
FORMAT = "headwater_datagen"
ROWS_PER_BATCH = 65_536
TASKS_DEFAULT = 1
_PLAN = "plan"
_COUNT = whole_number(low=1, high=LONG_MAX)
_WAIT_MAX_S = 1.0
"""A stream that ends waits at most this long for the next row that it may make."""


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    whole = text.strip().lstrip("+-")
    return int(text) if whole.isdigit() else number


def _read_rate(text: str) -> float | None:
    number = _read_number(text)
    return number if number is not None and 0 <= number <= 1 else None


_NUMBER = Kind("number", "a number", _read_number)
_RATE = Kind("rate", "a number from 0 to 1", _read_rate)

ROWS_PER_SECOND = Option(
    name="rows-per-second",
    kind=_COUNT,
    default="10000",
    description="How many rows a stream makes in each second. A batch makes them at once.",
)
NUMBER_OF_ROWS = Option(
    name="number-of-rows",
    kind=_COUNT,
    description="How many rows there are; without it, and without a sequence, there is no end.",
)
PARALLELISM = Option(
    name="scan.parallelism",
    kind=whole_number(low=1, high=INT_MAX),
    default=str(TASKS_DEFAULT),
    description="How many tasks make rows side by side.",
)
_KIND = Option(
    name=f"fields.{FIELD}.kind",
    kind=choice(FieldKind),
    default="random",
    description="How the values of a column are made: `random`, or a `sequence` of numbers.",
)
_MIN = Option(
    name=f"fields.{FIELD}.min", kind=_NUMBER, description="Smallest random number of a column."
)
_MAX = Option(
    name=f"fields.{FIELD}.max", kind=_NUMBER, description="Largest random number of a column."
)
_MAX_PAST = Option(
    name=f"fields.{FIELD}.max-past",
    kind=DURATION,
    default="0 ms",
    description="How far back random times reach; by default they are the time of the row.",
)
_LENGTH = Option(
    name=f"fields.{FIELD}.length",
    kind=whole_number(low=0, high=INT_MAX),
    default="100",
    description="Length of random texts.",
)
_VAR_LEN = Option(
    name=f"fields.{FIELD}.var-len",
    kind=BOOLEAN,
    default="false",
    description="Let random texts have any length up to that.",
)
_START = Option(
    name=f"fields.{FIELD}.start",
    kind=whole_number(low=-LONG_MAX, high=LONG_MAX),
    description="First number of a sequence.",
)
_END = Option(
    name=f"fields.{FIELD}.end",
    kind=whole_number(low=-LONG_MAX, high=LONG_MAX),
    description="Last number of a sequence: the rows end with it.",
)
_NULL_RATE = Option(
    name=f"fields.{FIELD}.null-rate",
    kind=_RATE,
    default="0",
    description="Share of random values that are null, from 0 to 1.",
)
_FIELDS = (_KIND, _MIN, _MAX, _MAX_PAST, _LENGTH, _VAR_LEN, _START, _END, _NULL_RATE)
OPTIONS = (ROWS_PER_SECOND, NUMBER_OF_ROWS, PARALLELISM, *_FIELDS)


# What is to be made.


@dataclass(frozen=True, slots=True)
class GeneratorPlan:
    """What a table generates; travels to the tasks."""

    rules: Mapping[str, tuple[int, FieldRule]]
    """By column: its number, which makes its values differ from others, and its rule."""
    rows_per_second: int
    rows: int | None
    """None: without end."""
    tasks: int

    @classmethod
    def of(cls, options: Mapping[str, str], columns: list[str]) -> "GeneratorPlan":
        """Read checked options."""
        rules = {name: (number, _rule(name, options)) for number, name in enumerate(columns)}
        ends = [
            rule.end - rule.start + 1
            for _, rule in rules.values()
            if rule.end is not None and rule.start is not None
        ]
        given = NUMBER_OF_ROWS.of(options)
        rows = min((*ends, *([given] if given is not None else [])), default=None)
        return cls(
            rules=rules,
            rows_per_second=ROWS_PER_SECOND.required(options),
            rows=rows,
            tasks=PARALLELISM.required(options),
        )


def _rule(name: str, options: Mapping[str, str]) -> FieldRule:
    def of(option: Option[T]) -> T | None:
        return replace(option, name=option.name.replace(FIELD, name)).of(options)

    if of(_KIND) is FieldKind.SEQUENCE:
        start, end = of(_START), of(_END)
        if start is None or end is None or end < start:
            raise InvalidOptionError(
                f"The sequence of the column '{name}' needs a start and an end at or after it.",
                hint=f"Set 'fields.{name}.start' and 'fields.{name}.end'.",
            )
        return FieldRule(kind=FieldKind.SEQUENCE, start=start, end=end)
    low, high = of(_MIN), of(_MAX)
    if low is not None and high is not None and high < low:
        raise InvalidOptionError(
            f"'fields.{name}.max' is {high}, which is below 'fields.{name}.min' ({low})."
        )
    return FieldRule(
        low=low,
        high=high,
        length=of(_LENGTH),
        varies=bool(of(_VAR_LEN)),
        past_ms=of(_MAX_PAST) or 0,
        null_rate=of(_NULL_RATE) or 0.0,
    )


def rows_between(
    plan: GeneratorPlan, schema: pa.Schema, *, start: int, end: int, begin_ms: int
) -> Iterator[pa.RecordBatch]:
    """Make the rows with numbers from start to end."""
    times = RowTimes(begin_ms, plan.rows_per_second)
    for first in range(start, end, ROWS_PER_BATCH):
        numbers = np.arange(first, min(first + ROWS_PER_BATCH, end), dtype=np.int64)
        columns = [_column(plan, each, numbers, times) for each in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(plan: GeneratorPlan, field: pa.Field, numbers: Numbers, times: RowTimes) -> pa.Array:
    salt, rule = plan.rules[field.name]
    return column(field.name, field.type, rule, numbers=numbers, salt=salt, times=times)


# The data source of Spark.

Place = dict[str, int]
"""An offset: how many rows there were, and when the first one was made."""
_ROWS, _BEGIN = "rows", "begin_ms"


@dataclass(frozen=True, slots=True)
class GeneratedRange:
    """The rows that one task makes."""

    start: int
    end: int
    begin_ms: int


def _shares(start: int, end: int, *, tasks: int, begin_ms: int) -> list[InputPartition]:
    cuts = [start + (end - start) * number // tasks for number in range(tasks + 1)]
    return [
        InputPartition(GeneratedRange(low, high, begin_ms))
        for low, high in pairwise(cuts)
        if low < high
    ]


class DatagenSource(DataSource):
    """Makes rows of any schema, in batches and streams."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def reader(self, schema: StructType) -> "DatagenReader":
        """Reader of all rows at once."""
        return DatagenReader(self._plan(), schema, begin_ms=SystemClock().now_ms())

    def streamReader(self, schema: StructType) -> "DatagenStream":  # noqa: N802 - Spark's
        """Reader of rows as time goes by."""
        return DatagenStream(self._plan(), schema, clock=SystemClock())

    def _plan(self) -> GeneratorPlan:
        given = json.loads(self.options[_PLAN])
        return GeneratorPlan.of(given["options"], given["columns"])


class DatagenReader(DataSourceReader):
    """Makes all rows at once."""

    def __init__(self, plan: GeneratorPlan, schema: StructType, *, begin_ms: int) -> None:
        self._generator = plan
        self._schema = schema
        self._begin_ms = begin_ms

    def partitions(self) -> list[InputPartition]:
        """Divide the rows among tasks."""
        plan = self._generator
        assert plan.rows is not None
        return _shares(0, plan.rows, tasks=plan.tasks, begin_ms=self._begin_ms)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of one task."""
        return _made(self._generator, self._schema, partition.value)


def _made(
    plan: GeneratorPlan, schema: StructType, share: GeneratedRange | None
) -> Iterator[pa.RecordBatch]:
    if share is None:
        return iter(())
    return rows_between(
        plan,
        to_arrow_schema(schema, timezone=ZONE),
        start=share.start,
        end=share.end,
        begin_ms=share.begin_ms,
    )


class DatagenStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Makes as many rows in each second as the options say.

    After a restart it goes on with the next row. Times in the rows go on as well, so a pause does
    not show in them.
    """

    def __init__(self, plan: GeneratorPlan, schema: StructType, *, clock: Clock) -> None:
        self._generator = plan
        self._schema = schema
        self._clock = clock
        self._since: tuple[float, int] | None = None
        self._ends = False

    def __getstate__(self) -> dict[str, object]:
        # Tasks need only what to make.
        return {**self.__dict__, "_clock": None}

    def initialOffset(self) -> Place:  # noqa: N802 - Spark's
        """Begin with the first row, now."""
        return {_ROWS: 0, _BEGIN: self._clock.now_ms()}

    def latestOffset(self, start: Place, limit: ReadLimit) -> Place:  # noqa: N802, ARG002 - Spark's
        """Return how many rows there may be now, waiting for the next one if there is none."""
        done, last = start[_ROWS], self._generator.rows
        if self._since is None:
            self._since = (self._clock.monotonic(), done)
        due = self._due()
        while due <= done and (last is None or done < last):
            asyncio.run(self._clock.sleep(min(1 / self._generator.rows_per_second, _WAIT_MAX_S)))
            due = self._due()
            if not self._ends:
                break
        end = due if last is None else min(due, last)
        return {**start, _ROWS: end} if end > done else start

    def _due(self) -> int:
        assert self._since is not None
        begun, first = self._since
        passed = self._clock.monotonic() - begun
        return first + int(passed * self._generator.rows_per_second)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        """Read all rows that are due."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Go on until the last row."""
        self._ends = True

    def partitions(self, start: Place, end: Place) -> list[InputPartition]:
        """Divide the rows of a micro-batch among tasks."""
        tasks = self._generator.tasks
        return _shares(start[_ROWS], end[_ROWS], tasks=tasks, begin_ms=start[_BEGIN])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of one task."""
        return _made(self._generator, self._schema, partition.value)

    def commit(self, end: Place) -> None:
        """Do nothing: every row can be made again."""

    def stop(self) -> None:
        """Do nothing: nothing is open."""


# The connector.


def _read(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    if not _is_bounded(table):
        raise InvalidOptionError(
            f"{table.name} has no end, so it cannot be read in a batch.",
            hint=f"Set '{NUMBER_OF_ROWS.name}', or read it as a stream: "
            "SET 'execution.runtime-mode' = 'streaming'.",
        )
    spark.dataSource.register(DatagenSource)
    return spark.read.format(FORMAT).schema(needed_fields(table)).options(**_told(table)).load()


def _read_stream(spark: SparkSession, table: ConnectorTable) -> DataFrame:
    spark.dataSource.register(DatagenSource)
    reader = spark.readStream.format(FORMAT).schema(needed_fields(table))
    return reader.options(**_told(table)).load()


def _told(table: ConnectorTable) -> dict[str, str]:
    _plan_of(table)  # raises here, not in a task
    return {_PLAN: json.dumps({"options": dict(table.options), "columns": table.schema.names})}


def _plan_of(table: ConnectorTable) -> GeneratorPlan:
    return GeneratorPlan.of(table.options, table.schema.names)


def _is_bounded(table: ConnectorTable) -> bool:
    return _plan_of(table).rows is not None


DATAGEN = Connector(
    name="datagen",
    description="Makes up rows at a steady pace, the same ones in every run.",
    options=OPTIONS,
    read=_read,
    read_stream=_read_stream,
    is_bounded=_is_bounded,
)
