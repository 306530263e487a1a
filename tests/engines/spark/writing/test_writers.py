"""The writers as Spark's tasks call them, without Spark: every attempt of a task writes once."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pyarrow as pa
import pytest
from pyspark import TaskContext

from headwater.engines.spark.sink import BatchWriter, StreamWriter
from headwater.engines.spark.sink_columns import TASK_COLUMN, SinkOptions
from headwater.errors import (
    InvalidValueError,
    RequestError,
    TableMissingError,
    UnsupportedError,
)
from headwater.testing.server import serving
from tests.engines.spark.writing.tables import frame

COLUMNS = {"id": "BIGINT", "city": "STRING"}
ROWS = "id bigint, city string"
NUMBERS = count(1)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("data")) as server:
        client = server.connect()
        client.create_database("spark")
        yield server, client


@pytest.fixture
def make_table(served):
    def make(columns=COLUMNS, **traits):
        return served[1].create_table(f"spark.t{next(NUMBERS)}", columns, **traits)

    return make


@contextmanager
def running(task: int = 0, *, query: str | None = None, epoch: int = 0) -> Iterator[None]:
    """Be in a task of Spark."""
    properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(epoch)}
    TaskContext._setTaskContext(None)
    TaskContext(partitionId=task, localProperties=properties if query else {})
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def options(served, table, **others) -> SinkOptions:
    given = {"bootstrap.servers": served[0].address, "table": str(table.path), **others}
    return SinkOptions.of(given)


def batch(start: int, size: int) -> pa.RecordBatch:
    ids = range(start, start + size)
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "city": [f"c{i}" for i in ids]})


def ids(table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def travelled(writer):
    return pickle.loads(pickle.dumps(writer))


def test_a_task_that_is_run_again_writes_its_rows_once(served, make_table):
    table = make_table(buckets=2)
    writer = travelled(BatchWriter(options(served, table), frame(ROWS), overwrite=False))

    with running(0):
        first = writer.write(iter([batch(0, 10), batch(10, 5)]))
        again = writer.write(iter([batch(0, 10), batch(10, 5)]))

    assert (first.rows, again.rows) == (15, 15)
    assert (first.batches_landed, again.batches_written) == (0, 0)
    assert ids(table) == list(range(15))


def test_tasks_write_side_by_side(served, make_table):
    table = make_table(buckets=3)
    writer = travelled(BatchWriter(options(served, table), frame(ROWS), overwrite=False))

    for task in range(4):
        with running(task):
            writer.write(iter([batch(task * 10, 10)]))

    assert ids(table) == list(range(40))


def test_two_writes_of_the_same_rows_write_them_twice(served, make_table):
    table = make_table()

    for _ in range(2):
        writer = BatchWriter(options(served, table), frame(ROWS), overwrite=False)
        with running(0):
            writer.write(iter([batch(0, 3)]))

    assert ids(table) == [0, 0, 1, 1, 2, 2]


def test_a_named_write_is_written_once_however_often_it_is_run(served, make_table):
    table = make_table()

    for _ in range(2):
        named = options(served, table, **{"write.id": "import-1"})
        writer = BatchWriter(named, frame(ROWS), overwrite=False)
        with running(0):
            writer.write(iter([batch(0, 3)]))

    assert ids(table) == [0, 1, 2]


def test_the_writes_of_one_name_are_told_apart_by_their_epoch(served, make_table):
    table = make_table()

    for epoch in (0, 1, 1, 0, 2):
        named = options(served, table, **{"write.id": "query", "write.epoch": str(epoch)})
        writer = BatchWriter(named, frame(ROWS), overwrite=False)
        with running(0):
            writer.write(iter([batch(epoch * 3, 3)]))

    assert ids(table) == list(range(9))


def test_a_name_stands_for_itself_in_each_query_that_writes_under_it(served, make_table):
    table = make_table()
    asked = options(served, table, **{"write.id": f"{table.path}", "write.epoch": "0"})
    writer = travelled(BatchWriter(asked, frame(ROWS), overwrite=False))

    for query in ("first", "first", "second"):
        with running(0, query=query):
            writer.write(iter([batch(0, 3)]))

    assert ids(table) == [0, 0, 1, 1, 2, 2]


def test_an_epoch_of_a_stream_is_written_once(served, make_table):
    table = make_table(primary_key="id", buckets=2)
    writer = travelled(StreamWriter(options(served, table), frame(ROWS), overwrite=False))

    for epoch in (0, 0, 1, 1):
        with running(0, query="a-query", epoch=epoch):
            message = writer.write(iter([batch(epoch * 10, 10)]))
        writer.commit([message, None], epoch)

    assert ids(table) == list(range(20))
    assert sum(table.offsets().values()) == 20


def test_a_task_without_rows_writes_nothing(served, make_table):
    table = make_table()
    writer = StreamWriter(options(served, table), frame(ROWS), overwrite=False)

    with running(3, query="a-query"):
        assert writer.write(iter([])).rows == 0
        assert writer.write(iter([batch(0, 0)])).rows == 0


def test_rows_shuffled_by_bucket_may_come_in_other_tasks_the_next_time(served, make_table):
    table = make_table(primary_key="id", buckets=4)
    columns = frame(f"{ROWS}, {TASK_COLUMN} int")
    writer = StreamWriter(options(served, table), columns, overwrite=False)

    for task in (1, 2):
        rows = batch(0, 50).append_column(TASK_COLUMN, pa.array([task] * 50, pa.int32()))
        with running(task, query="shuffled"):
            message = writer.write(iter([rows]))

    assert message.batches_written == 0
    assert sum(table.offsets().values()) == 50


def test_nothing_is_written_of_a_task_with_a_null_key(served, make_table):
    table = make_table(primary_key="id")
    writer = StreamWriter(options(served, table), frame(ROWS), overwrite=False)
    bad = pa.record_batch({"id": pa.array([None], pa.int64()), "city": ["x"]})

    with running(0, query="q"), pytest.raises(InvalidValueError, match="key column 'id'"):
        writer.write(iter([batch(0, 1000), bad]))

    assert ids(table) == []


def test_deletes_need_nothing_but_the_key(served, make_table):
    columns = {"id": "BIGINT", "city": "STRING NOT NULL"}
    table = make_table(columns, primary_key="id")
    table.upsert([(1, "a"), (2, "b")])
    writer = BatchWriter(
        options(served, table), frame(f"{ROWS}, _change_type string"), overwrite=False
    )
    rows = {"id": [1, 3], "city": [None, "c"], "_change_type": ["delete", "insert"]}

    with running(0):
        writer.write(iter([pa.RecordBatch.from_pydict(rows)]))

    assert ids(table) == [2, 3]


def test_a_table_that_was_made_anew_meanwhile_is_not_written(served, make_table):
    table = make_table()
    writer = BatchWriter(options(served, table), frame(ROWS), overwrite=False)
    served[1].drop_table(table.path)
    served[1].create_table(table.path, COLUMNS)

    with running(0), pytest.raises(RequestError, match="dropped and created again"):
        writer.write(iter([batch(0, 3)]))


def test_a_worker_that_knew_the_table_before_writes_the_new_one(served, make_table):
    table = make_table()
    with running(0):
        BatchWriter(options(served, table), frame(ROWS), overwrite=False).write(iter([batch(0, 3)]))
    served[1].drop_table(table.path)
    anew = served[1].create_table(table.path, COLUMNS)

    with running(0):
        BatchWriter(options(served, anew), frame(ROWS), overwrite=False).write(iter([batch(7, 2)]))

    assert ids(anew) == [7, 8]


def test_overwriting_is_refused(served, make_table):
    with pytest.raises(UnsupportedError, match="cannot be overwritten") as caught:
        BatchWriter(options(served, make_table()), frame(ROWS), overwrite=True)

    assert ".mode('append')" in caught.value.hint


def test_a_complete_result_needs_a_key(served, make_table):
    with pytest.raises(UnsupportedError, match="has no primary key"):
        StreamWriter(options(served, make_table()), frame(ROWS), overwrite=True)


def test_an_unknown_table_is_refused_when_the_write_is_planned(served):
    named = SinkOptions.of({"bootstrap.servers": served[0].address, "table": "spark.nothing"})

    with pytest.raises(TableMissingError):
        BatchWriter(named, frame(ROWS), overwrite=False)


def test_the_log_of_a_table_cannot_be_written(served, make_table):
    named = {"bootstrap.servers": served[0].address, "table": f"{make_table().path}$changelog"}

    with pytest.raises(UnsupportedError, match="virtual table"):
        BatchWriter(SinkOptions.of(named), frame(ROWS), overwrite=False)
