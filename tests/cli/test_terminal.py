"""Commands on a terminal: bars, questions, live views, tables that fit."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios

import pytest

from tests.cli.commanding import RUN_WITHIN_S, Storage, ok

WIDTH = 60


class Terminal:
    """Run one command with a terminal of its own."""

    def __init__(
        self, storage: Storage, *arguments: str, stdout: bool = True, controls: bool = False
    ) -> None:
        """`controls`: Ctrl-C typed into it is a signal to the command and all its processes."""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
        env = {key: value for key, value in storage.env.items() if key != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *arguments],
            stdin=theirs,
            stdout=theirs if stdout else subprocess.PIPE,
            stderr=theirs,
            env={**env, "TERM": "xterm"},
            start_new_session=controls,
            # Only the new process can take the terminal, before it runs the command.
            preexec_fn=_take_terminal if controls else None,  # noqa: PLW1509 - one thread
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until a text was shown; an empty text waits for the end."""
        while not text or text not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], RUN_WITHIN_S)
            assert ready, self.seen
            try:
                self.seen += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # Linux tells so that the other end is closed.
                break
        return self.seen

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        code = self.process.wait(RUN_WITHIN_S)
        os.close(self._ours)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def table(server, name):
    storage = Storage(server.address)
    ok(storage("table", "create", name, "--column", "id:BIGINT", "--column", "note:STRING"))
    return storage, name


def test_a_table_is_dropped_after_a_yes_only(table):
    storage, name = table

    ends = []
    for answer in ("n\n", "y\n"):
        terminal = Terminal(storage, "table", "drop", name)
        terminal.until("its rows? [y/N]")
        terminal.type(answer)
        terminal.until("")
        ends.append(terminal.end())

    assert ends == [1, 0]
    assert storage("table", "describe", name).exit_code == 4


def test_a_bar_shows_how_far_a_file_is_and_keeps_out_of_the_output(table, tmp_path):
    storage, name = table
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f'{{"id":{n}}}\n' for n in range(1000)))

    terminal = Terminal(storage, "append", name, str(path), "--batch-rows", "100", stdout=False)
    shown = terminal.until("")
    printed = terminal.process.stdout.read()

    assert terminal.end() == 0
    assert "rows/s" in shown
    assert printed.decode() == f"1000 rows appended to fluss.{name}.\n"


def test_a_wide_table_fits_the_terminal(table):
    storage, name = table
    ok(storage("append", name, stdin='{"id":1,"note":"' + "x" * 500 + '"}'))

    terminal = Terminal(storage, "scan", name)
    lines = terminal.until("").splitlines()

    assert terminal.end() == 0
    assert max(map(len, lines)) == WIDTH
    assert lines[-1].endswith("x…")


def test_q_leaves_the_live_view(table):
    storage, _ = table

    terminal = Terminal(storage, "top", "--interval", "1 h")
    terminal.until("\x1b[?1049h")
    terminal.type("xq")
    terminal.until("")

    assert terminal.end() == 0


def test_the_live_view_runs_until_ctrl_c(table):
    storage, _ = table

    terminal = Terminal(storage, "top", "--interval", "0.1")
    terminal.until("rows/s")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("")

    assert terminal.end() == 0
