"""`headwater run`: what it is given, how it ends, and how it tells how far jobs are."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from headwater.cli.commands import TERMINATED, app_of
from headwater.cli.pipelines import script
from headwater.cli.pipelines.shell import Shell
from headwater.pipelines.jobs import JobProgress
from headwater.pipelines.launch import Launcher
from headwater.pipelines.session import names_of
from headwater.pipelines.settings import SessionSettings
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.state import SessionState
from tests.cases import cases

ENDLESS = """
    CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5');
    CREATE TABLE nowhere (id BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO nowhere SELECT id FROM made;
"""


def run(*arguments: str):
    return CliRunner().invoke(app_of(["run", "tier"]), ["run", *arguments])


@cases(
    "arguments, code, told",
    [
        (["missing.sql"], 4, "no file missing.sql"),
        ([__file__, "-e", "SHOW TABLES"], 3, "both in a file and on the command line"),
        (["-e", "SHOW TABLES", "--set", "nothing"], 3, "not a valid setting"),
    ],
)
def test_what_cannot_be_run_is_refused_before_spark_is_started(arguments, code, told):
    result = run(*arguments)

    assert result.exit_code == code
    assert told in result.stderr


def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    for name in [name for name in sys.modules if name.startswith("headwater.pipelines")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "headwater.cli.pipelines.script", raising=False)

    result = run("-e", "SHOW TABLES")

    assert result.exit_code == 4
    assert "headwater[spark,sql]" in result.stderr


@cases(
    "typed, found",
    [("sel", ["select"]), ("SEL", ["SELECT"]), ("or", ["orders", "or", "order"]), ("xyz", [])],
)
def test_what_is_typed_is_completed_by_names_and_keywords(typed, found):
    assert script.completions(typed, ["orders", "items", "orders"]) == found


@cases(
    "typed, found",
    [("execution.run", "execution.runtime-mode"), ("rows-per", "rows-per-second"), ("pr", "price")],
)
def test_settings_options_and_columns_are_completed(typed, found, tmp_path):
    state = SessionState(None, SessionSettings(None, {"state.checkpoints.dir": str(tmp_path)}))
    definition = parse("CREATE TABLE t (id INT, price INT) WITH ('connector' = 'blackhole')")[
        0
    ].definition
    state.put_temporary(state.full(("t",)), definition)
    names = names_of(SimpleNamespace(state=state, launcher=Launcher(state.settings, None)))

    assert script.completions(typed, names)[0] == found


def test_a_statement_of_several_lines_is_one_line_of_the_history(monkeypatch):
    readline = pytest.importorskip("readline")
    monkeypatch.setenv("HEADWATER_SQL_HISTORY", "")
    typed = iter(["SELECT id", "  FROM t;", "quit"])

    def line(_prompt):
        readline.add_history(text := next(typed))
        return text

    monkeypatch.setattr("builtins.input", line)
    readline.clear_history()
    ran = []
    Shell(SimpleNamespace(run=ran.append), None, script._SHELL).run("")

    kept = [readline.get_history_item(place + 1) for place in range(2)]
    assert (kept, readline.get_current_history_length()) == (["SELECT id FROM t;", "quit"], 2)
    assert ran == ["SELECT id\n  FROM t;"]


@cases("typed", ["help", "HELP", "clear"])
def test_help_needs_no_semicolon(typed):
    assert script._SHELL.is_complete(typed)


@cases("typed", ["quit", "EXIT;", "quit;"])
def test_a_shell_is_left_without_a_dot_or_a_semicolon(typed, monkeypatch):
    monkeypatch.setenv("HEADWATER_SQL_HISTORY", "")
    lines = iter([typed])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(lines))

    Shell(None, None, script._SHELL).run("")

    assert next(lines, None) is None


def test_progress_is_told_in_one_line():
    progress = JobProgress(
        batch=7, rows=1200, rows_per_second=600.4, behind=3400, late=2, batch_ms=2000
    )

    told = script.progress_text("job", progress)

    assert told == (
        "job: micro-batch 7 with 1,200 rows in 2.0 s, 600 rows/s, 3,400 rows behind, "
        "2 late rows dropped"
    )


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_sigterm_stops_all_jobs_and_is_told_by_the_exit_code(tmp_path):
    command = [sys.executable, "-m", "headwater", "run", "--master", "local[1]", "-e", ENDLESS]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ,
        start_new_session=True,
    )
    told = iter(process.stderr.readline, "")
    assert any("insert-into_default_catalog.default_database.nowhere started" in x for x in told)

    # To Spark's process as well, as a service manager does it.
    os.killpg(process.pid, signal.SIGTERM)
    rest = process.communicate(timeout=300)[1]

    assert process.returncode == TERMINATED
    assert "stopped by SIGTERM" in rest
    assert "Traceback" not in rest
