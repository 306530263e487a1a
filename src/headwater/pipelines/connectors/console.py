"""The connectors `print` and `blackhole`: rows on the terminal of the driver, or nowhere."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headwater.config.values import BOOLEAN, TEXT, Option
from headwater.pipelines.connectors.spi import (
    Connector,
    ConnectorTable,
    OutputMode,
    StreamStart,
)

CHANGE_COLUMN = "_change_type"
INSERTED, UPDATED = "+I", "+U"
_SIGNS = {
    "append": INSERTED,
    "insert": INSERTED,
    "update_before": "-U",
    "update_after": UPDATED,
    "delete": "-D",
}
_ROWS_PER_WRITE = 1_000

IDENTIFIER = Option(
    name="print-identifier", kind=TEXT, description="Printed before each row, as in `name> +I[1]`."
)
STANDARD_ERROR = Option(
    name="standard-error",
    kind=BOOLEAN,
    default="false",
    description="Print to standard error instead of standard output.",
)


@dataclass(frozen=True, slots=True)
class RowPrinter:
    """Prints rows as `+I[1, tea]`, with the kind of each change first."""

    prefix: str
    is_error: bool
    sign: str = INSERTED
    """For rows that do not say themselves what they change."""

    def __call__(self, rows: DataFrame, _number: int = 0) -> None:
        """Print the rows of one micro-batch."""
        table = rows.toArrow()
        out = sys.stderr if self.is_error else sys.stdout
        for batch in table.to_batches(max_chunksize=_ROWS_PER_WRITE):
            out.write("".join(self.lines(batch)))
        out.flush()

    def lines(self, batch: pa.RecordBatch) -> Iterable[str]:
        """The text of rows."""
        names = [name for name in batch.schema.names if name != CHANGE_COLUMN]
        signs = self._signs(batch)
        columns = [batch.column(name).to_pylist() for name in names]
        rows = zip(*columns, strict=True) if columns else ([()] * batch.num_rows)
        for sign, row in zip(signs, rows, strict=True):
            yield f"{self.prefix}{sign}[{', '.join(map(shown_value, row))}]\n"

    def _signs(self, batch: pa.RecordBatch) -> Sequence[str]:
        if CHANGE_COLUMN not in batch.schema.names:
            return [self.sign] * batch.num_rows
        return [
            _SIGNS.get(str(kind), str(kind)) for kind in batch.column(CHANGE_COLUMN).to_pylist()
        ]


def shown_value(value: object) -> str:
    """The text of one value, with `null` as SQL has it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def triggered(writer: DataStreamWriter, start: StreamStart) -> DataStreamWriter:
    """Set name, checkpoint and pace of a query."""
    named = writer.queryName(start.job).option("checkpointLocation", start.checkpoint)
    if start.ends:
        return named.trigger(availableNow=True)
    return named.trigger(processingTime=f"{start.interval_ms or 0} milliseconds")


def each_micro_batch(
    rows: DataFrame, write: Callable[[DataFrame, int], None], start: StreamStart
) -> StreamingQuery:
    """Start a query that hands each micro-batch to a function."""
    writer = triggered(rows.writeStream.outputMode(start.mode.value), start)
    return writer.foreachBatch(without_py4j(write)).start()


def without_py4j(write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Raise errors of Java without the name of Py4J's error.

    When a query ends, Spark looks for that name with a pattern that overflows Java's stack on long
    messages, such as that of a micro-batch that is stopped in its middle.
    """

    def written(rows: DataFrame, number: int) -> None:
        try:
            write(rows, number)
        except Py4JJavaError as error:
            said = str(error)
            raise RuntimeError(said.partition("\n: ")[2] or said) from None

    return written


def _printer(table: ConnectorTable, mode: OutputMode = OutputMode.APPEND) -> RowPrinter:
    name = IDENTIFIER.of(table.options)
    return RowPrinter(
        prefix="" if name is None else f"{name}> ",
        is_error=STANDARD_ERROR.required(table.options),
        sign=UPDATED if mode is not OutputMode.APPEND else INSERTED,
    )


def _print(rows: DataFrame, table: ConnectorTable) -> None:
    _printer(table)(rows)


def _print_stream(rows: DataFrame, table: ConnectorTable, start: StreamStart) -> StreamingQuery:
    return each_micro_batch(rows, _printer(table, start.mode), start)


def _drop(rows: DataFrame, _table: ConnectorTable) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _drop_stream(rows: DataFrame, _table: ConnectorTable, start: StreamStart) -> StreamingQuery:
    writer = rows.writeStream.format("noop").outputMode(start.mode.value)
    return triggered(writer, start).start()


def _always(_table: ConnectorTable) -> bool:
    return True


PRINT = Connector(
    name="print",
    description="Prints rows where the driver runs, each with the kind of its change.",
    options=(IDENTIFIER, STANDARD_ERROR),
    write=_print,
    write_stream=_print_stream,
    takes_updates=_always,
)
BLACKHOLE = Connector(
    name="blackhole",
    description="Takes all rows and keeps none, to measure everything before it.",
    write=_drop,
    overwrite=_drop,
    write_stream=_drop_stream,
    takes_updates=_always,
)
