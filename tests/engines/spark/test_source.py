"""What Spark's planner and its workers meet first: the source, and the daemon."""

import subprocess
import sys
from traceback import extract_tb

import pytest

from headwater.engines.spark.daemon import HUNG_UP, _without_complaint
from headwater.engines.spark.source import HeadwaterSource
from headwater.errors import InvalidOptionError
from tests.cases import cases


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


# What a helper process of Spark does: it runs as a module of pyspark, loads a reader of ours, and
# finds that Spark is gone when it wants to answer.
HELPER = """
import sys
import traceback
from importlib import import_module
from importlib.machinery import ModuleSpec

__spec__ = ModuleSpec(sys.argv[1], None)
import_module(sys.argv[2])

for fault in (BrokenPipeError("hung up"), ValueError("a fault of ours")):
    try:
        raise fault
    except Exception:
        traceback.print_exc()
try:
    raise EOFError
except EOFError:
    raise BrokenPipeError("hung up")
"""


@cases("loaded", ["headwater.engines.spark.read.batch", "pyspark_headwater"])
@cases("main, told", [("pyspark.daemon", 0), ("somebodys.program", 2)])
def test_helpers_of_spark_end_quietly_when_spark_is_gone(loaded, main, told):
    done = subprocess.run(
        [sys.executable, "-c", HELPER, main, loaded], capture_output=True, text=True, check=False
    )

    assert done.stderr.count("BrokenPipeError: hung up") == told
    assert done.stderr.count("ValueError: a fault of ours") == 1
    assert done.returncode == 1
