"""Spark at a token gives what the oracle gives: as a plain source, and with its own reader."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import headwater.spark
from tests.union.engines import Engine, Sql
from tests.union.machine import counted
from tests.union.telling import FEW, fitting, read, told, written
from tests.union.wanting import left

# A session alone can take a minute on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
WANTED = [
    [("id", ">", 30), ("n", "!=", 7)],
    [("texture", "starts with", "a"), ("late", "is null")],
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    is_made_here = SparkSession.getActiveSession() is None
    made = headwater.spark.session("tests", master="local[2]")
    yield made
    if is_made_here:
        made.stop()


class Source(Sql):
    """`spark.read.format("headwater")`."""

    spark: SparkSession

    def frame(self, table, token):
        options = {"bootstrap.servers": self.client.address, "scan.token": token}
        return self.spark.read.format("headwater").options(**options, table=table).load()

    def run(self, table, token, *, sql):
        self.frame(table, token).createOrReplaceTempView("seen")
        return self.spark.sql(sql.format("seen").replace('"', "`")).toArrow()


class Native(Source):
    """`headwater.spark.read`, which lets Spark read the files of the lake."""

    def frame(self, table, token):
        return headwater.spark.read(self.spark, table, at=self.client.address, token=token)


@pytest.fixture(params=[Source, Native])
def engine(storage, spark, request) -> Engine:
    made = request.param(storage.client)
    made.spark = spark
    return made


@pytest.fixture(scope="module", params=FEW, ids=str)
def story(storage, request):
    return told(storage, request.param)


def test_spark_gives_the_rows_of_a_token_now_and_later(story, engine):
    token, position = story.table.view().token(), story.now()

    first = read(engine, str(story.table.path), token)
    story.write(fitting(story, [{**row, "texture": "z"} for row in written(range(20, 70), n=3)]))
    later = read(engine, str(story.table.path), token)

    assert first == story.expected(position)
    assert later == story.expected(position)


def test_spark_filters_as_the_oracle_does(story, engine):
    token, everything = story.table.view().token(), story.expected()
    name = str(story.table.path)

    found = [
        counted(engine.rows(name, token, columns=["id", "late", "n"], where=where))
        for where in WANTED
    ]

    assert found == [left(everything, where, ["id", "late", "n"]) for where in WANTED]
