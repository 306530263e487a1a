"""Readers as Spark drives them, without Spark."""

import pickle
from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from headwater import Table
from headwater.engines.spark.read.batch import BatchReader
from headwater.engines.spark.read.stream import StreamReader
from headwater.engines.spark.source_options import SourceOptions
from headwater.engines.spark.types import spark_schema


def batch_reader(table: Table, address: str, **options: str) -> BatchReader:
    asked, schema = _asked(table, address, options)
    return BatchReader(asked, schema)


def stream_reader(table: Table, address: str, **options: str) -> StreamReader:
    asked, schema = _asked(table, address, options)
    return StreamReader(asked, schema)


def source_options(table: Table, address: str, options: Mapping[str, str]) -> SourceOptions:
    """Return options; their names are written with `__` for dots."""
    named = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    return SourceOptions.of({"bootstrap.servers": address, "table": table.name} | named)


def read_batch(reader: BatchReader) -> pa.Table:
    """Plan a read and run its tasks."""
    return _read(reader, reader.partitions())


def read_between(reader: StreamReader, start: dict, end: dict) -> pa.Table:
    """Plan a micro-batch and run its tasks."""
    return _read(reader, reader.partitions(start, end))


def read_on(reader: StreamReader, start: dict) -> tuple[pa.Table, dict]:
    """Run the next micro-batch."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    return read_between(reader, start, end), end


def read_up(reader: StreamReader, start: dict) -> tuple[list[pa.Table], dict]:
    """Run micro-batches until there is nothing left to read."""
    batches = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        batches.append(read_between(reader, start, end))
        start = end
    return batches, start


def _asked(table: Table, address: str, options: Mapping[str, str]):
    asked = source_options(table, address, options)
    whole = table if asked.virtual is None else asked.connection.client().table(asked.table)
    return asked, spark_schema(whole.schema, columns=asked.columns, path=asked.table)


def _read(reader: DataSourceReader | DataSourceStreamReader, partitions) -> pa.Table:
    # Both travel to tasks, each time anew.
    batches = [
        batch
        for partition in partitions
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(partition)))
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({})
