"""Run every test except the long ones: `make test`.

The tests of Spark need one session and run one after another, so they run beside all others; a few
of them run again over Spark Connect. What they print is shown when the others have ended. `make
interop` runs all of them over Connect, and `make torture` runs every test in every combination.

Files of tests are kept in memory where there is room for them, so that a sync costs nothing; tests
of what a sync promises cut the power of a disk of their own. `make torture` uses the real disk.
"""

import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.torture_parts import SHORT
from scripts.torture_running import Group

WITHIN_S = 3 * 3600.0
FAILED = 1
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 * 1024**3
# What a test that passed leaves behind is removed at once, as memory is dear.
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-o", "tmp_path_retention_policy=failed")
# One more than there are cores, since tests also wait: for timeouts, and for other processes.
WORKERS = min(8, (os.cpu_count() or 1) + 1)
_MANY = ("-n", str(WORKERS), "--dist", "worksteal")
OTHERS = (*_PYTEST, *_MANY, "-m", f"not spark and {SHORT}")
_FOLDER = "tests/engines/spark"
# Where they are, so that nothing else has to be loaded.
WITH_SPARK = (
    _FOLDER,
    "tests/pipelines",
    "tests/union/test_spark.py",
    "tests/cli/test_tier.py",
    "tests/flows/test_encrypted.py",
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
    "tests/pipelines/test_stories.py::test_a_stream_is_enriched_by_key",
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
    with TemporaryDirectory(dir=_in_memory()) as place, ThreadPoolExecutor(1) as pool:
        log, variables = Path(place) / "spark.log", _variables(place)
        print(f"The tests of Spark run beside the others and print to {log}.", flush=True)
        try:
            beside = pool.submit(_run_spark, log, (spark, over_connect), variables)
            is_good = Group(others, variables=variables).wait(WITHIN_S) == 0
            is_spark_good = beside.result()
        finally:
            for group in list(Group.running):
                group.end()
        for each in (log, _over_connect(log)):
            print(each.read_text(errors="replace") if each.exists() else "", end="", flush=True)
    if not is_good:
        print("Tests without Spark failed: see above those of Spark.", file=sys.stderr)
    return int(not (is_good and is_spark_good))


def _in_memory() -> Path | None:
    """Return a folder in memory, or None if there is none, or too little, or TMPDIR names one."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN
    return MEMORY if has_room and "TMPDIR" not in os.environ else None


def _variables(place: str) -> Mapping[str, str]:
    """Return what all tests share: where files go, and that what was compiled is kept."""
    # Hundreds of processes are started, and each would compile everything again.
    return {"TMPDIR": place, "PYTHONDONTWRITEBYTECODE": ""}


def _run_spark(
    log: Path, commands: tuple[Sequence[str], Sequence[str]], variables: Mapping[str, str]
) -> bool:
    """Run the tests of Spark in one session, then some over Connect; tell whether all passed."""
    spark, over_connect = commands
    first = Group(spark, log=log, variables=variables).wait(WITHIN_S)
    if first not in (0, FAILED):  # ended from outside, or nothing was run: nothing more is begun
        return False
    second = Group(over_connect, log=_over_connect(log), variables=variables)
    return second.wait(WITHIN_S) == first == 0


def _over_connect(log: Path) -> Path:
    return log.with_name("connect.log")


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
