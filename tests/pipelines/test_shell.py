"""The shell of `headwater run` on a terminal of its own, as somebody types into it."""

import pytest

from tests.cli.commanding import Storage
from tests.cli.test_terminal import Terminal

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CTRL_C = "\x03"
BEGIN = """
    CREATE CATALOG hw WITH ('type' = 'fluss', 'bootstrap.servers' = '{address}');
    USE CATALOG hw;
    CREATE TABLE shelf (id BIGINT);
    CREATE TEMPORARY TABLE made (id BIGINT) WITH (
      'connector' = 'datagen', 'rows-per-second' = '20');
    CREATE TEMPORARY TABLE few (id BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');
    SET 'table.dml-sync' = 'true';
"""


@pytest.fixture
def shell(served, tmp_path):
    arguments = ["run", "--master", "local[1]", "--set", f"state.checkpoints.dir={tmp_path}"]
    terminal = Terminal(Storage(served.address), *arguments, controls=True)
    terminal.until("headwater> ")
    enter(terminal, BEGIN.format(address=served.address), until="Set 'table.dml-sync' to 'true'")
    yield terminal
    terminal.process.kill()
    terminal.process.wait()


def enter(terminal: Terminal, text: str, *, until: str) -> str:
    """Type a line, and return what is shown until a text comes."""
    terminal.seen = ""
    terminal.type(" ".join(text.split()) + "\n")
    return terminal.until(until)


def test_ctrl_c_ends_a_query_and_the_shell_goes_on(shell):
    enter(shell, "SELECT id FROM made;", until="+I")
    shell.seen = ""
    shell.type(CTRL_C)
    ended = shell.until("interrupted")
    inserted = enter(shell, "INSERT INTO shelf SELECT id FROM few;", until="started")
    listed = enter(shell, "SHOW JOBS;", until="FINISHED")
    refused = enter(shell, "SELECT ie FROM made;", until="^")
    helped = enter(shell, "help", until="STOP JOB")
    shell.type("quit\n")

    assert "org.apache" not in ended
    assert "insert-into_hw.fluss.shelf started" in inserted
    assert "FINISHED" in listed
    assert "Line 1, column 8" in refused
    assert "End a statement with a semicolon" in helped
    assert shell.process.wait(60) == 0
