"""What Spark's planner and its workers meet first: the source, and the daemon."""

from traceback import extract_tb

import pytest

from headwater.engines.spark.daemon import HUNG_UP, _without_complaint
from headwater.engines.spark.source import HeadwaterSource
from headwater.errors import InvalidOptionError


def test_a_mistake_is_shown_without_the_way_on_which_it_was_found():
    with pytest.raises(InvalidOptionError, match="Did you mean 'table'") as caught:
        HeadwaterSource({"tabel": "shop.orders"}).schema()

    files = {frame.filename.rpartition("/")[2] for frame in extract_tb(caught.tb)}
    assert "source.py" in files
    assert "options.py" not in files


def test_a_worker_ends_quietly_when_spark_has_hung_up():
    def worker(sock, authenticated):
        raise BrokenPipeError

    assert _without_complaint(worker)(None, True) == HUNG_UP


def test_a_worker_that_fails_otherwise_says_so():
    def worker(sock, authenticated):
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        _without_complaint(worker)(None, True)
