"""Micro-batches that are handed to a function, and what their errors say."""

import traceback

import pytest
from py4j.protocol import Py4JJavaError

from headwater.pipelines.connectors.console import without_py4j


class JavaError(Py4JJavaError):
    """An error of Java, without a Java."""

    def __init__(self) -> None:
        Exception.__init__(self)

    def __str__(self) -> str:
        return "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: no room"


def test_what_spark_looks_for_with_a_pattern_that_overflows_is_not_in_an_error():
    def write(_rows, _number):
        raise JavaError

    with pytest.raises(RuntimeError) as caught:
        without_py4j(write)(None, 0)

    told = "".join(traceback.format_exception(caught.value))
    assert "org.apache.spark.SparkException: no room" in told
    assert "An error occurred while calling" not in told
