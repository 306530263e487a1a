"""Run every test except the long ones: `make test`.

The tests of Spark need one session and run one after another, so they run beside all others; a few
of them run again over Spark Connect. What they print is shown when the others have ended. `make
interop` runs all of them over Connect, and `make torture` runs every test in every combination.
"""

import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.torture_parts import SHORT
from scripts.torture_running import Group

WITHIN_S = 3 * 3600.0
FAILED = 1
_PYTEST = (sys.executable, "-m", "pytest", "-q")
_MANY = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
OTHERS = (*_PYTEST, *_MANY, "-m", f"not spark and {SHORT}")
_FOLDER = "tests/engines/spark"
# Where they are, so that nothing else has to be loaded.
WITH_SPARK = (
    _FOLDER,
    "tests/pipelines",
    "tests/union/test_spark.py",
    "tests/cli/test_tier.py",
    "tests/docs",
)
SPARK = (*_PYTEST, "-m", f"spark and {SHORT}", *WITH_SPARK)
OVER_CONNECT = (
    *_PYTEST,
    "--spark=connect",
    f"{_FOLDER}/test_batch_source.py::test_a_log_is_read_in_parts_by_columns_and_filters",
    f"{_FOLDER}/test_batch_sink.py::test_a_named_write_lands_once_however_often_the_job_is_run",
    f"{_FOLDER}/test_stream_sink.py::test_every_micro_batch_is_appended",
    f"{_FOLDER}/catalog/test_install.py::test_over_connect_each_table_is_a_view",
)


def main() -> int:
    # As Ctrl-C does, so that whoever ends us leaves nothing behind.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run(others=OTHERS, spark=SPARK, over_connect=OVER_CONNECT)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def run(*, others: Sequence[str], spark: Sequence[str], over_connect: Sequence[str]) -> int:
    """Run commands, the later two one after the other beside the first; return 0 if all passed."""
    with TemporaryDirectory() as place, ThreadPoolExecutor(1) as pool:
        log = Path(place) / "spark.log"
        print(f"The tests of Spark run beside the others and print to {log}.", flush=True)
        try:
            beside = pool.submit(_run_spark, log, spark, over_connect)
            is_good = Group(others).wait(WITHIN_S) == 0
            is_spark_good = beside.result()
        finally:
            for group in list(Group.running):
                group.end()
        for each in (log, _over_connect(log)):
            print(each.read_text(errors="replace") if each.exists() else "", end="", flush=True)
    if not is_good:
        print("Tests without Spark failed: see above those of Spark.", file=sys.stderr)
    return int(not (is_good and is_spark_good))


def _run_spark(log: Path, spark: Sequence[str], over_connect: Sequence[str]) -> bool:
    """Run the tests of Spark in one session, then some over Connect; tell whether all passed."""
    first = Group(spark, log=log).wait(WITHIN_S)
    if first not in (0, FAILED):  # ended from outside, or nothing was run: nothing more is begun
        return False
    return Group(over_connect, log=_over_connect(log)).wait(WITHIN_S) == first == 0


def _over_connect(log: Path) -> Path:
    return log.with_name("connect.log")


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
