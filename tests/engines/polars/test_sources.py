"""Rows that Headwater reads for Polars."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from headwater.engines.polars import lazy_rows

TYPES = pl.Schema({"id": pl.Int64, "city": pl.String, "x": pl.Float64})
BATCHES = [
    pa.record_batch({"id": [number, number + 1], "city": ["Ulm", None], "x": [0.5, 1.5]})
    for number in (0, 2, 4)
]


class Log:
    """Give rows, and remember what was read of them."""

    def __init__(self, batches=BATCHES) -> None:
        self.batches = batches
        self.columns: list[Sequence[str]] = []
        self.batch_count = 0

    def read(self, columns):
        self.columns.append(columns)
        for batch in self.batches:
            self.batch_count += 1
            yield batch.select(columns)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def frame(log) -> pl.LazyFrame:
    return lazy_rows(log.read, TYPES)


def test_nothing_is_read_before_it_is_collected(frame, log):
    assert frame.collect_schema() == TYPES
    assert log.columns == []


def test_the_columns_of_a_query_are_read(frame, log):
    assert frame.filter(pl.col("id") > 2).select("x").collect()["x"].to_list() == [1.5, 0.5, 1.5]
    assert [set(each) for each in log.columns] == [{"id", "x"}]


def test_a_limit_stops_reading():
    many = [pa.record_batch({"id": np.arange(70_000)})] * 3
    read = Log(many)
    frame = lazy_rows(read.read, pl.Schema({"id": pl.Int64}))

    assert frame.head(70_001).collect().height == 70_001
    assert frame.head(5).collect()["id"].to_list() == [0, 1, 2, 3, 4]
    assert read.batch_count == 3


def test_a_limit_counts_what_a_filter_leaves(frame):
    assert frame.filter(pl.col("city") == "Ulm").head(2).collect()["id"].to_list() == [0, 2]
