"""How the command begins."""

import os
import subprocess
import sys

import pytest

from tests.cases import cases

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
# What a command does first is to tell its version; whoever asks then sees the pool that it has.
ASKING = """
import sys
from headwater.cli.entry import main
sys.argv = ["headwater", "--version"]
try:
    main()
finally:
    import pyarrow
    print(pyarrow.default_memory_pool().backend_name)
"""


def pool(**variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", ASKING],
        capture_output=True,
        text=True,
        check=True,
        env={**kept, **variables},
    )
    assert done.stderr == ""
    return done.stdout.split()[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Arrow's own choice is kept")
def test_a_command_has_memory_that_is_given_back():
    assert pool() == "jemalloc"


def test_memory_that_the_user_chose_is_kept():
    assert pool(**{VARIABLE: "system"}) == "system"


SETTLED = """
import gc, os, sys
from headwater.cli.entry import main
sys.argv = ["headwater", "--version"]
try:
    main()
finally:
    names = [open(f"/proc/self/task/{each}/comm").read() for each in os.listdir("/proc/self/task")]
    threads = [name for name in names if "jemalloc" not in name]
    print(len(threads), gc.isenabled(), gc.get_freeze_count() > 50_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_command_starts_no_threads_of_libraries_and_collects_only_what_it_makes_itself():
    kept = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

    done = subprocess.run(
        [sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True, env=kept
    )

    assert done.stdout.split()[-3:] == ["1", "True", "True"]


@cases("words", [["sql", "CREATE TABLE t (a INT)"], ["sql", "SELECT 1"], ["count", "t"]])
def test_a_command_ends_without_a_word_of_its_libraries(words, tmp_path):
    (tmp_path / "data").mkdir(exist_ok=True)
    at = ["--at", str(tmp_path / "data")]

    done = subprocess.run(
        [sys.executable, "-m", "headwater", *words, *at],
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(done.stderr.splitlines()) <= 1, done.stderr


LISTING = """
import sys
from headwater.cli.entry import main
sys.argv = ["headwater", "serve", "--help"]
try:
    main()
finally:
    print(*sys.modules)
"""


def test_a_command_loads_no_other_commands():
    done = subprocess.run(
        [sys.executable, "-c", LISTING], capture_output=True, text=True, check=True
    )

    help_text, modules = done.stdout.rstrip().rsplit("\n", 1)
    assert "serve" in help_text
    assert "headwater.cli.serve" in modules.split()
    assert not {"headwater.cli.lake", "headwater.client"} & set(modules.split())


def test_a_command_that_is_not_there_is_refused_with_a_hint():
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "serv"], capture_output=True, text=True, check=False
    )

    assert done.returncode != 0
    assert "No such command" in done.stderr
    assert "serve" in done.stderr


COUNTING = """
import sys
from headwater.cli.entry import main
sys.argv = ["headwater", "count", "orders", "--at", "127.0.0.1:1"]
try:
    main()
finally:
    print(*sys.modules)
"""


def test_a_command_on_a_server_loads_no_server_and_no_engine():
    done = subprocess.run(
        [sys.executable, "-c", COUNTING], capture_output=True, text=True, check=False
    )
    heavy = {
        "headwater.server",
        "headwater.tablet",
        "headwater.embedded",
        "headwater.audit",
        "headwater.tiering",
        "headwater.engines",
        "sqlite3",
        "pandas",
        "polars",
        "duckdb",
        "pyarrow.parquet",
        "pyarrow.compute",
        "pyarrow.dataset",
        "pyiceberg",
        "pyspark",
    }

    assert "Connection refused" in done.stderr
    assert heavy & set(done.stdout.split()) == set()
    assert "headwater.client" in done.stdout.split()
